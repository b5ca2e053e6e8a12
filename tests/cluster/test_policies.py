"""What users see of a policy: printer columns, conditions, events, and rules with durations."""

import asyncio
import json
import shutil
import subprocess
from collections import Counter

import pytest

from sandbox.client.objects import EVENTS, NODES, POLICIES

pytestmark = [pytest.mark.e2e, pytest.mark.features("pages")]

RULE = {"metricname": "health", "operator": "GreaterThan", "target": "1500m"}


def spec(*rules, strategy="deschedule", **more):
    return {"strategies": {strategy: {"rules": list(rules), **more}}}


@pytest.fixture
def conditions(world):
    """Wait until a policy's conditions are these: type → status."""

    async def wait(policy, **wanted):
        async def agree():
            found = await world.client.get(POLICIES, policy, world.namespace)
            listed = found.get("status", {}).get("conditions", [])
            made = {condition["type"]: condition["status"] for condition in listed}
            return wanted.items() <= made.items() and found["status"]

        return await world.eventually(agree)

    return wait


@pytest.fixture
def told(world):
    """Wait for events on a policy: reason → count."""

    async def wait(policy, **wanted):
        async def agree():
            selector = f"involvedObject.kind=TASPolicy,involvedObject.name={policy}"
            events = (await world.client.list(EVENTS, world.namespace, fields=selector)).items
            counted = Counter()
            for event in events:
                counted[event["reason"]] += event["count"]
            return counted == wanted and events

        return await world.eventually(agree)

    return wait


async def test_decimal_target_conditions_and_events_of_a_violation(world, conditions, told):
    node, other = await world.add_node("a"), await world.add_node("b")
    policy = await world.add_policy("demo", spec=spec(RULE))
    for one in (node, other):
        world.fleet.say(one, health=1.5)
    await world.start()
    status = await conditions(policy, Valid="True", DescheduleViolated="False")
    assert status["observedGeneration"] == 1
    since = {c["type"]: c["lastTransitionTime"] for c in status["conditions"]}
    world.fleet.say(node, health=1.625)
    status = await conditions(policy, Valid="True", DescheduleViolated="True")
    assert status["compliance"] == "Violated"
    assert status["violatingNodes"] == 1
    assert {c["type"]: c["lastTransitionTime"] for c in status["conditions"]}["Valid"] == since[
        "Valid"
    ]
    await world.labelled(node, **{policy: "violating"})
    world.fleet.say(node, health=0)
    await conditions(policy, DescheduleViolated="False")
    world.fleet.say(node, health=2)
    await told(policy, StrategyViolated=2, StrategyCleared=1)


async def test_restart_repeats_no_event_and_changes_no_transition_time(world, conditions, told):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", spec=spec(RULE, {**RULE, "labels": ["x"]}, strategy="labeling"))  # fmt: skip
    world.fleet.say(node, health=2)
    await world.start()
    before = await conditions(policy, Valid="False", LabelingViolated="True")
    reasons = {"StrategyViolated": 1, "PolicyProblem": 2}
    events = await told(policy, **reasons)
    await world.evaluator.stop()
    await world.start()
    await world.edit_policy(policy, labeling=["health GreaterThan 1: a=b"])
    after = await conditions(policy, Valid="True", LabelingViolated="True")
    times = [
        {c["type"]: c["lastTransitionTime"] for c in status["conditions"]}["LabelingViolated"]
        for status in (before, after)
    ]
    assert times[0] == times[1]
    again = await told(policy, **reasons)
    assert {e["metadata"]["name"] for e in again} == {e["metadata"]["name"] for e in events}


async def test_label_is_kept_for_clear_after_through_a_restart(world, conditions):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", spec=spec(RULE, clearAfter="1h"))
    world.fleet.say(node, health=2)
    await world.start()
    await world.labelled(node, **{policy: "violating"})
    await world.evaluator.stop(kill=True)
    world.fleet.say(node, health=0)
    await world.start()
    of = f'namespace="{world.namespace}",policy="{policy}",state="clearing",strategy="deschedule"'

    async def clearing():
        return await world.evaluator.metric(f"plimsoll_policy_timed_nodes{{{of}}}") == 1

    await world.eventually(clearing)
    assert await world.labels(node) == {policy: "violating"}
    await world.edit_policy(policy, deschedule=["health GreaterThan 1"])
    await world.labelled(node)


async def test_missing_reading_violates_if_configured(world, conditions):
    node, other = await world.add_node("a"), await world.add_node("b")
    body = spec(RULE, strategy="dontschedule", whenMissing="violate")
    policy = await world.add_policy("demo", spec=body)
    world.fleet.say(node, health=0)
    world.fleet.say(other, health=0)
    await world.start()
    await conditions(policy, DontScheduleViolated="False")
    world.fleet.say(other)
    status = await conditions(policy, DontScheduleViolated="True")
    assert "because of missing readings" in status["message"]
    pod = {
        "metadata": {
            "name": "p",
            "namespace": world.namespace,
            "labels": {"telemetry-policy": policy},
        },
        "spec": {"containers": []},
    }
    reply = await world.evaluator.filter(pod, [node, other])
    assert reply["FailedNodes"] == {other: f"violating {policy}: health is missing"}
    assert reply["NodeNames"] == [node]


async def test_kubectl_shows_the_printer_columns(world, conditions):
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl on PATH")
    node = await world.add_node("a")
    policy = await world.add_policy("demo", spec=spec(RULE))
    world.fleet.say(node, health=2)
    await world.start()
    await conditions(policy, DescheduleViolated="True")
    program = await asyncio.create_subprocess_exec(
        "kubectl",
        f"--kubeconfig={world.plane.kubeconfig}",
        f"--namespace={world.namespace}",
        *("get", "taspolicies", policy, "-o", "wide"),
        stdout=subprocess.PIPE,
    )
    out, _ = await program.communicate()
    head, row = out.decode().splitlines()
    columns = ["COMPLIANCE", "VIOLATING", "VALID", "MODE", "PODS", "IGNORED", "MESSAGE", "AGE"]
    assert head.split() == ["NAME", *columns]
    assert row.split()[:7] == [policy, "Violated", "1", "True", "Enforce", "0", "0"]


async def test_recreated_node_is_judged_by_its_own_first_report(world):
    node, other = await world.add_node("a"), await world.add_node("b")
    policy = await world.add_policy("demo", dontschedule=["health Equals 2"])
    for one in (node, other):
        world.fleet.say(one, health=2)
    await world.start("--staleAfter=60s")

    async def explained():
        _, text = await world.evaluator.get(f"/explain/{world.namespace}/{policy}")
        return json.loads(text)

    async def awaited():
        return (await explained())["awaited"] == [node]

    await world.fleet.silence(node)
    await world.client.delete(NODES, node)
    await world.add_node("a")
    await world.eventually(awaited)
    pod = {
        "metadata": {
            "name": "web",
            "namespace": world.namespace,
            "labels": {"telemetry-policy": policy},
        }
    }
    assert "first readings" in (await world.evaluator.filter(pod, [node, other]))["Error"]
    assert set((await world.evaluator.filter(pod, [other]))["FailedNodes"]) == {other}
    world.fleet.say(node, health=0)

    async def passes():
        return (await world.evaluator.filter(pod, [node, other])).get("NodeNames") == [node]

    await world.eventually(passes)
