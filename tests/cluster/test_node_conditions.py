"""Node conditions in both directions: read as metrics of policies, and written as actions of policies."""

import asyncio

import pytest

from sandbox.client.client import STRATEGIC
from sandbox.client.objects import NODES, POLICIES

pytestmark = [pytest.mark.e2e, pytest.mark.features("node_actions", "pages")]


async def report_condition(world, node, status, kind="KernelDeadlock"):
    """Write a condition as node-problem-detector does: by a strategic merge patch of the status."""
    condition = {
        "type": kind,
        "status": status,
        "reason": "DockerHung",
        "message": "task docker:7 blocked for more than 120 seconds",
        "lastHeartbeatTime": "2026-11-22T10:00:00Z",
        "lastTransitionTime": "2026-11-22T09:00:00Z",
    }
    body = {"status": {"conditions": [condition]}}
    await world.client.patch(NODES, node, body, subresource="status", content_type=STRATEGIC)


async def test_condition_of_another_reporter_is_a_metric_of_policies(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    policy = await world.add_policy("demo", deschedule=["node_condition_KernelDeadlock Equals 1"])
    await report_condition(world, other, "False")
    await report_condition(world, node, "True")
    await world.start()
    await world.labelled(node, **{policy: "violating"})
    await world.labelled(other)
    await report_condition(world, node, "Unknown")
    await world.labelled(node)
    await report_condition(world, other, "True")
    await world.labelled(other, **{policy: "violating"})
    _, page = await world.evaluator.get(f"/explain/{world.namespace}/{policy}")
    assert '"source":"node-conditions"' in page.replace(" ", "")


KIND = "plimsoll.io/Demo"
ANNOTATIONS = {"plimsoll.io/actions": "condition", "plimsoll.io/condition-type": KIND}


async def conditions(world, node):
    found = (await world.client.get(NODES, node))["status"]["conditions"]
    return {c["type"]: c for c in found}


async def condition(world, node, status, kind=KIND):
    """Wait for a condition of ours with this status; return it."""

    async def found():
        one = (await conditions(world, node)).get(kind)
        return one if one and one["status"] == status else None

    try:
        return await world.eventually(found)
    except TimeoutError:
        raise AssertionError(f"{await conditions(world, node)}{world.evaluator.log()}") from None


async def test_condition_shows_the_violation_and_its_end(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"], annotations=ANNOTATIONS)
    before = await conditions(world, node)
    world.fleet.say(node, health=2)
    world.fleet.say(other, health=0)
    await world.start("--conditions")
    made = await condition(world, node, "True")
    assert made["reason"] == "DescheduleViolated"
    assert made["message"] == (
        f"policy {world.namespace}/{policy} is violated: health Equals 2 (reading 2)"
    )
    assert KIND not in await conditions(world, other)
    world.fleet.say(node, health=0)
    made = await condition(world, node, "False")
    assert (made["reason"], made["message"]) == (
        "Cleared",
        f"policy {world.namespace}/{policy} is not violated",
    )
    after = await conditions(world, node)
    assert {kind: c for kind, c in after.items() if kind != KIND} == before
    assert await world.labels(node) == {}  # `actions` does not name label


async def test_condition_of_a_deleted_policy_is_removed_and_nothing_else(world):
    node = await world.add_node("a")
    status = (await world.client.get(NODES, node))["status"]
    first = await world.add_policy("first", deschedule=["health Equals 2"], annotations=ANNOTATIONS)
    await world.add_policy(
        "second",
        dontschedule=["health Equals 2"],
        annotations={
            "plimsoll.io/actions": "condition",
            "plimsoll.io/condition-type": "example.com/Ill",
        },
    )
    world.fleet.say(node, health=2)
    await world.start("--conditions", "--conditionTypes=example.com/*")
    await condition(world, node, "True")
    made = await condition(world, node, "True", "example.com/Ill")
    assert made["reason"] == "DontScheduleViolated"
    await world.client.delete(POLICIES, first, world.namespace)

    async def removed():
        return KIND not in await conditions(world, node)

    await world.eventually(removed)
    assert (await conditions(world, node))["example.com/Ill"] == made
    await world.client.delete(POLICIES, world.name("second"), world.namespace)

    async def as_before():
        return (await world.client.get(NODES, node))["status"] == status

    await world.eventually(as_before)


async def test_transition_survives_a_restart_and_is_not_written_again(world):
    node = await world.add_node("a")
    spec = {
        "strategies": {
            "deschedule": {
                "rules": [
                    {
                        "metricname": "health",
                        "operator": "Equals",
                        "target": 2,
                        "for": "1s",
                        "clearAfter": "10m",
                    }
                ]
            }
        }
    }
    policy = await world.add_policy("demo", spec=spec, annotations=ANNOTATIONS)
    world.fleet.say(node, health=2)
    await world.start("--conditions")
    made = await condition(world, node, "True")
    version = (await world.client.get(NODES, node))["metadata"]["resourceVersion"]
    await world.evaluator.stop(kill=True)
    world.fleet.say(node, health=0)
    await asyncio.sleep(1.1)  # lastTransitionTime has whole seconds
    await world.start("--conditions")
    status = await world.status(policy, lambda found: found["compliance"] == "Violated")
    assert status["violatingNodes"] == 1  # clearAfter runs: the condition says that it was violated
    assert (await conditions(world, node))[KIND] == made
    assert (await world.client.get(NODES, node))["metadata"]["resourceVersion"] == version


def problems(status):
    return next(c["message"] for c in status["conditions"] if c["type"] == "Valid")


async def test_condition_of_another_reporter_is_never_overwritten_and_does_not_stop_others(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    await report_condition(world, node, "False", kind="KernelDeadlock")
    taken = await world.add_policy(
        "taken",
        deschedule=["health Equals 2"],
        annotations=ANNOTATIONS | {"plimsoll.io/condition-type": "KernelDeadlock"},
    )
    await world.add_policy("demo", deschedule=["health Equals 2"], annotations=ANNOTATIONS)
    for one in (node, other):
        world.fleet.say(one, health=2)
    await world.start("--conditions", "--conditionTypes=KernelDeadlock")
    await condition(world, node, "True")
    await condition(world, other, "True")
    await condition(world, other, "True", "KernelDeadlock")
    assert (await conditions(world, node))["KernelDeadlock"]["reason"] == "DockerHung"
    status = await world.status(taken, lambda found: "is owned by" in problems(found))
    owner = await owner_of(world, node, "KernelDeadlock")
    where = f"{node}) is owned by field manager {owner}: not set"
    assert problems(status).startswith("condition KernelDeadlock on 1 of ")
    assert problems(status).endswith(where)
    for path in (f"/explain/{world.namespace}/{taken}", "/explain", "/index.json"):
        _, page = await world.evaluator.get(path)
        assert where in page, path


async def owner_of(world, node, kind):
    """The field manager of a condition that has one."""
    entries = (await world.client.get(NODES, node))["metadata"]["managedFields"]
    key = f'k:{{"type":"{kind}"}}'
    (found,) = [
        entry["manager"]
        for entry in entries
        if key in entry["fieldsV1"].get("f:status", {}).get("f:conditions", {})
    ]
    return found


async def test_condition_that_another_reporter_takes_over_is_left_to_it(world):
    """Also when both are removed, the other reporter's stays."""
    node = await world.add_node("a")
    first = await world.add_policy("first", deschedule=["health Equals 2"], annotations=ANNOTATIONS)
    others = ANNOTATIONS | {"plimsoll.io/condition-type": "plimsoll.io/Second"}
    second = await world.add_policy("second", deschedule=["health Equals 2"], annotations=others)
    world.fleet.say(node, health=2)
    await world.start("--conditions")
    await condition(world, node, "True")
    await condition(world, node, "True", "plimsoll.io/Second")
    await report_condition(world, node, "False", kind=KIND)
    await world.status(first, lambda found: "is owned by" in problems(found))
    world.fleet.say(node, health=0)
    await condition(world, node, "False", "plimsoll.io/Second")
    for policy in (first, second):
        await world.client.delete(POLICIES, policy, world.namespace)

    async def removed():
        return "plimsoll.io/Second" not in await conditions(world, node)

    await world.eventually(removed)
    assert (await conditions(world, node))[KIND]["reason"] == "DockerHung"


async def test_types_without_our_prefix_need_the_flag(world):
    node = await world.add_node("a")
    policy = await world.add_policy(
        "demo",
        deschedule=["health Equals 2"],
        annotations=ANNOTATIONS | {"plimsoll.io/condition-type": "KernelDeadlock"},
    )
    world.fleet.say(node, health=2)
    await world.start("--conditions")
    status = await world.status(policy, lambda found: found["compliance"] == "Violated")
    assert "--conditionTypes of the evaluator does not permit it" in problems(status)
    assert "KernelDeadlock" not in await conditions(world, node)


async def test_conditions_need_the_flag(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", deschedule=["health Equals 2"], annotations=ANNOTATIONS)
    world.fleet.say(node, health=2)
    await world.start()
    status = await world.status(policy, lambda found: found["compliance"] == "Violated")
    valid = next(c for c in status["conditions"] if c["type"] == "Valid")
    assert valid["message"] == (
        "plimsoll.io/actions: condition: the evaluator runs without --conditions: no condition is set"
    )
    assert KIND not in await conditions(world, node)
