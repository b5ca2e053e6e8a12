"""Misspelt plimsoll.io/ keys of policies on an API server: said everywhere, and nothing changes until they are corrected."""

import json

import pytest

from sandbox.client.objects import EVENTS, NODES, POLICIES

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.features("node_actions", "labels", "memory", "status", "pages"),
]

TAINT = {
    "plimsoll.io/actions": "label,taint",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
}
RULES = {"dontschedule": ["health Equals 2"], "deschedule": ["health Equals 2"]}
FLAGS = ("--taints", "--maxActedNodes=100%")


@pytest.fixture
async def nodes(world):
    sick, well = await world.add_node("sick"), await world.add_node("well")
    world.fleet.say(sick, health=2)
    world.fleet.say(well, health=0)
    return sick, well


async def annotate(world, policy, **annotations):
    keys = {f"plimsoll.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    body = {"metadata": {"annotations": keys}}
    await world.client.patch(POLICIES, policy, body, world.namespace)


async def refused(world, policy, nodes):
    labels = {"telemetry-policy": policy}
    pod = {"metadata": {"name": "web", "namespace": world.namespace, "labels": labels}}
    return set((await world.evaluator.filter({**pod, "spec": {}}, nodes))["FailedNodes"] or ())


async def taints(world, node):
    found = (await world.client.get(NODES, node))["spec"].get("taints") or ()
    return {one["key"]: one["effect"] for one in found if one["key"].startswith("plimsoll.io/")}


def valid(status, words):
    """Whether the condition Valid is False and says this."""
    return any(
        one["type"] == "Valid" and one["status"] == "False" and words in one["message"]
        for one in status.get("conditions", ())
    )


async def named_on_pages_and_in_events(world, policy, words):
    code, text = await world.evaluator.get(f"/explain/{world.namespace}/{policy}")
    assert (code, words in " ".join(json.loads(text)["problems"])) == (200, True), text
    code, text = await world.evaluator.get(f"/policies/{world.namespace}/{policy}")
    assert (code, words in text) == (200, True)

    async def told():
        events = (await world.client.list(EVENTS, world.namespace)).items
        return any(
            one["involvedObject"]["name"] == policy
            and one["reason"] == "PolicyProblem"
            and words in one["message"]
            for one in events
        )

    await world.eventually(told)


@pytest.mark.parametrize(
    ("metadata", "similar"),
    [
        ({"annotations": {"plimsoll.io/enforcment": "observe"}}, "plimsoll.io/enforcement"),
        ({"annotations": {**TAINT, "plimsoll.io/maxNodes": "1"}}, "plimsoll.io/max-nodes"),
        ({"labels": {"plimsoll.io/enforcement": "observe"}}, "write it as an annotation"),
    ],
    ids=["letters", "case", "label"],
)
async def test_policy_that_was_never_enforced_is_only_observed(world, nodes, metadata, similar):
    policy = await world.add_policy("demo", **RULES, annotations=metadata.get("annotations"))
    if labels := metadata.get("labels"):
        await world.client.patch(
            POLICIES, policy, {"metadata": {"labels": labels}}, world.namespace
        )
    await world.start(*FLAGS)
    status = await world.status(policy, lambda found: valid(found, similar))
    assert valid(status, "the policy is only observed until that is corrected")
    assert status["enforcement"] == "Observe"
    await named_on_pages_and_in_events(world, policy, similar)
    assert await refused(world, policy, nodes) == set()
    assert await taints(world, nodes[0]) == {}
    assert await world.labels(nodes[0]) == {}
    await world.evaluator.stop()
    await world.start(*FLAGS)  # a restart does not enforce it
    await world.status(policy, lambda found: valid(found, similar))
    assert await refused(world, policy, nodes) == set()
    await world.client.patch(
        POLICIES,
        policy,
        {
            "metadata": {
                "annotations": dict.fromkeys(metadata.get("annotations", ())),
                "labels": dict.fromkeys(metadata.get("labels", ())),
            }
        },
        world.namespace,
    )
    await world.status(policy, lambda found: found["enforcement"] == "Enforce")
    await world.labelled(nodes[0], **{policy: "violating"})


async def test_enforced_policy_goes_on_as_last_understood_over_a_restart(world, nodes):
    sick, well = nodes
    policy = await world.add_policy("demo", **RULES, annotations=TAINT)
    key = f"plimsoll.io/{world.namespace}.{policy}"
    await world.start(*FLAGS)

    async def tainted(*names):
        return all([await taints(world, one) == ({key: "NoSchedule"} if one in names else {}) for one in nodes])  # fmt: skip

    await world.eventually(lambda: tainted(sick))
    await annotate(world, policy, actions=None, action="label", taint_effect="NoExecute")
    wrong = "plimsoll.io/action is unknown, similar: plimsoll.io/actions"
    status = await world.status(policy, lambda found: valid(found, wrong))
    assert valid(status, "the policy is enforced as before this mistake")
    await named_on_pages_and_in_events(world, policy, wrong)
    assert await tainted(sick)
    await world.evaluator.stop(kill=True)
    world.fleet.say(sick, health=0)
    world.fleet.say(well, health=2)
    await world.start(*FLAGS)
    await world.eventually(lambda: tainted(well))
    await world.status(policy, lambda found: valid(found, wrong))
    await annotate(world, policy, action=None, actions="label", taint_effect=None)
    await world.eventually(tainted)
    await world.labelled(well, **{policy: "violating"})


async def test_key_that_resembles_none_is_a_warning_and_changes_nothing(world, nodes):
    sick, _ = nodes
    policy = await world.add_policy(
        "demo", **RULES, annotations={**TAINT, "plimsoll.io/of-a-newer-version": "x"}
    )
    await world.start(*FLAGS)
    status = await world.status(policy, lambda found: "of-a-newer-version" in str(found))
    assert status["enforcement"] == "Enforce"
    assert not valid(status, "")
    await world.labelled(sick, **{policy: "violating"})
    assert await refused(world, policy, nodes) == {sick}


async def test_names_that_nothing_produces_are_said_and_change_nothing_else(world, nodes):
    sick, _ = nodes
    names = ("problem_KernelDeadlok", "node_condition_Redy", "violation_score_nobody")
    rules = [f"{name} Equals 1" for name in names]
    policy = await world.add_policy("demo", dontschedule=["health Equals 2", *rules])
    await world.start()
    told = (
        *names[:2],
        f"no policy {world.namespace}/nobody with the annotation plimsoll.io/memory",
    )
    for words in told:
        await world.status(policy, lambda found, words=words: valid(found, words))
    assert await refused(world, policy, nodes) == {sick}
    _, text = await world.evaluator.get(f"/explain/{world.namespace}/{policy}")
    said = " ".join(json.loads(text)["problems"])
    assert all(words in said for words in told), said
