"""Under any injected fault the evaluator answers, converges, and no label flaps."""

import pytest

pytestmark = pytest.mark.e2e

VIOLATING = [None, "violating"]


@pytest.fixture(
    params=[
        "slow",
        "resets",
        "half reset",
        "answers lost",
        "500",
        "503",
        "429",
        "watches end",
        "watches end at once",
        "watches torn",
        "410 as an event",
        "410 as a status",
        "hangs",
        "a bit of everything",
    ]
)
def bad(request, faults):
    too_many = faults.says(429, "too many requests", headers={"Retry-After": "1"})
    return {
        "slow": faults.slow(0.3),
        "resets": faults.resets,
        "half reset": faults.in_turn(faults.resets, faults.passes),
        "answers lost": faults.in_turn(faults.loses_answers, faults.passes),
        "500": faults.says(500, "etcdserver: request timed out"),
        "503": faults.says(503, "apiserver not ready"),
        "429": too_many,
        "watches end": faults.ends_watches(1),
        "watches end at once": faults.ends_watches(0),
        "watches torn": faults.tears_watches,
        "410 as an event": faults.expires_watches,
        "410 as a status": faults.only(faults.is_watch, faults.says(410, "too old")),
        "hangs": faults.hangs,
        "a bit of everything": faults.in_turn(
            faults.passes,
            faults.resets,
            faults.loses_answers,
            faults.tears_watches,
            faults.says(500, "no"),
            faults.expires_watches,
            too_many,
        ),
    }[request.param]


async def test_answers_continue_during_faults_and_state_converges_afterwards(world, faults, bad):
    world.proxy.spoil(bad)
    world.nodes["node-b"].value = 1.0
    # Readings do not pass through the API server: their effect is immediate.
    await world.until(lambda: world.refused() == {"node-a", "node-b"})
    await world.answered(40)

    # Changes in the cluster meanwhile are applied afterwards.
    await world.rule(2)
    await world.api.delete("/api/v1/nodes/node-b")
    world.nodes["node-c"].value = 2.0
    await world.answered(20)
    world.proxy.spoil(faults.passes)
    await world.until(lambda: world.refused() == {"node-c"})
    await world.until(lambda: world.labelled() - {"node-b"} == {"node-c"})
    await world.until(world.ready)

    assert {status for status, _ in world.answers} == {200}
    assert world.labels["node-a"] in ([*VIOLATING, None], ["violating", None])
    assert world.labels["node-b"] in ([None], VIOLATING, [*VIOLATING, None])
    assert world.labels["node-c"] == VIOLATING
