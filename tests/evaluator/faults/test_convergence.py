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
def bad(request, weather):
    too_many = weather.says(429, "too many requests", headers={"Retry-After": "1"})
    return {
        "slow": weather.slow(0.3),
        "resets": weather.resets,
        "half reset": weather.in_turn(weather.resets, weather.passes),
        "answers lost": weather.in_turn(weather.loses_answers, weather.passes),
        "500": weather.says(500, "etcdserver: request timed out"),
        "503": weather.says(503, "apiserver not ready"),
        "429": too_many,
        "watches end": weather.ends_watches(1),
        "watches end at once": weather.ends_watches(0),
        "watches torn": weather.tears_watches,
        "410 as an event": weather.expires_watches,
        "410 as a status": weather.only(weather.is_watch, weather.says(410, "too old")),
        "hangs": weather.hangs,
        "a bit of everything": weather.in_turn(
            weather.passes,
            weather.resets,
            weather.loses_answers,
            weather.tears_watches,
            weather.says(500, "no"),
            weather.expires_watches,
            too_many,
        ),
    }[request.param]


async def test_answers_continue_during_faults_and_state_converges_afterwards(world, weather, bad):
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
    world.proxy.spoil(weather.passes)
    await world.until(lambda: world.refused() == {"node-c"})
    await world.until(lambda: world.labelled() - {"node-b"} == {"node-c"})
    await world.until(world.ready)

    assert {status for status, _ in world.answers} == {200}
    assert world.labels["node-a"] in ([*VIOLATING, None], ["violating", None])
    assert world.labels["node-b"] in ([None], VIOLATING, [*VIOLATING, None])
    assert world.labels["node-c"] == VIOLATING
