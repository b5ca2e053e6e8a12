"""A policy's status as written by the evaluator and stored by an API server."""

import functools
import json

import pytest

from sandbox.client import events
from sandbox.client.objects import POLICIES

pytestmark = [pytest.mark.e2e, pytest.mark.features("pages")]


def compliance(word):
    return lambda status: status.get("compliance") == word


async def test_status_follows_the_readings(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", dontschedule=["health Equals 1"])
    world.fleet.say(node, health=1)
    await world.start()
    told = await world.status(policy, compliance("Violated"))
    assert node in told["message"]
    world.fleet.say(node, health=0)
    told = await world.status(policy, compliance("Compliant"))
    assert {one["type"]: one["status"] for one in told["conditions"]}["Valid"] == "True"
    world.fleet.say(node)
    await world.status(policy, compliance("Unknown"))


async def test_status_has_the_observed_generation(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", dontschedule=["health Equals 1"])
    world.fleet.say(node, health=1)
    await world.start()
    await world.status(policy, compliance("Violated"))
    await world.edit_policy(policy, dontschedule=["health Equals 3"])
    told = await world.status(policy, compliance("Compliant"))
    generation = (await world.client.get(POLICIES, policy, world.namespace))["metadata"][
        "generation"
    ]
    assert told["observedGeneration"] == generation == 2


async def test_problem_of_a_policy_is_in_its_status(world):
    node = await world.add_node("a")
    rules = ["health Equals 1: a=1", "health LessThan 2: a=2"]
    policy = await world.add_policy("demo", labeling=rules)
    world.fleet.say(node, health=1)
    await world.start()

    def valid(status):
        return next(one for one in status.get("conditions", ()) if one["type"] == "Valid")

    told = await world.status(
        policy, lambda status: "conditions" in status and valid(status)["status"] == "False"
    )
    message = valid(told)["message"]
    assert "rules with different operators name different values (1, 2) on 1 of" in message
    assert "not set there" in message


async def test_status_is_written_once(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", dontschedule=["load GreaterThan 50"])
    world.fleet.say(node, load=60)
    await world.start()
    await world.status(policy, compliance("Violated"))
    before = await world.client.get(POLICIES, policy, world.namespace)
    marker = await world.add_policy("marker", dontschedule=["load GreaterThan 80"])
    await world.status(marker, compliance("Compliant"))
    for load in (70, 75, 90):
        world.fleet.say(node, load=load)
    await world.status(marker, compliance("Violated"))
    after = await world.client.get(POLICIES, policy, world.namespace)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_spec_and_status_writes_are_separate(world):
    policy = await world.add_policy("demo", dontschedule=["health Equals 1"])
    body = {"status": {"compliance": "Compliant"}, "spec": {"strategies": {}}}
    await world.client.patch(POLICIES, policy, body, world.namespace, subresource="status")
    await world.edit_policy(policy, dontschedule=["health Equals 3"])
    found = await world.client.get(POLICIES, policy, world.namespace)
    assert found["status"] == {"compliance": "Compliant"}
    (rule,) = found["spec"]["strategies"]["dontschedule"]["rules"]
    assert rule["target"] == 3


async def test_misspelt_metric_is_reported_with_the_one_that_nodes_have(world):
    node = await world.add_node("a")
    policy = await world.add_policy("demo", dontschedule=["health_metrc GreaterThan 0"])
    world.fleet.say(node, health_metric=0)
    await world.start()

    def found(status):
        return next(
            (one for one in status.get("conditions", ()) if one["type"] == "MetricsFound"), {}
        )

    told = await world.status(policy, lambda status: "similar" in found(status).get("message", ""))
    assert (found(told)["status"], found(told)["reason"]) == ("False", "MetricsNotFound")
    assert found(told)["message"].endswith("; similar metrics that nodes have: health_metric")
    event = await world.eventually(
        lambda: events.find(world.client, world.namespace, policy, "MetricNotFound")
    )
    assert "no node has the metric health_metrc; similar metrics" in event["message"]
    valid = next(one for one in told["conditions"] if one["type"] == "Valid")
    absent = "no node has the metric health_metrc: see the condition MetricsFound"
    assert (valid["status"], valid["message"]) == ("False", absent)
    labels = f'namespace="{world.namespace}",policy="{policy}"'
    assert await world.evaluator.metric(f"plimsoll_policy_metrics_not_found{{{labels}}}") == 1
    await world.edit_policy(policy, dontschedule=["health_metric GreaterThan 0"])
    await world.status(policy, lambda status: found(status).get("status") == "True")


async def test_counter_that_closes_every_node_is_reported_everywhere_alike(world):
    node = await world.add_node("a")
    counter = "pressure_cpu_waiting_seconds_total"
    policy = await world.add_policy("demo", dontschedule=[f"{counter} GreaterThan 20"])
    world.fleet.say(node, **{counter: 5000})
    await world.start()
    told = await world.status(policy, compliance("Violated"))
    valid = next(one for one in told["conditions"] if one["type"] == "Valid")
    problem, warning = valid["message"].split("; warning: ")
    assert valid["status"] == "False"
    assert problem.startswith("dontschedule refused every node at its first evaluation: no pod")
    assert warning.startswith(f"{counter} is a counter that only grows until the node restarts")
    assert "`record: node_pressure_cpu_waiting_ratio_max` with `expr: max(rate(" in warning
    assert told["message"].endswith("1 problem and 1 warning, see the condition Valid")
    for reason, message in (("PolicyProblem", problem), ("PolicyWarning", warning)):
        event = await world.eventually(
            functools.partial(events.find, world.client, world.namespace, policy, reason)
        )
        assert event["message"] == message
    said = {"problems": [problem], "warnings": [warning]}
    for page in (
        f"/explain/{world.namespace}/{policy}",
        f"/policies/{world.namespace}/{policy}.json",
    ):
        found = await shown(world, page)
        assert {field: found[field] for field in said} == said, page
    for page in ("/explain", "/index.json"):
        rows = (await shown(world, page))["policies"]
        (found,) = (one for one in rows if one["policy"] == f"{world.namespace}/{policy}")
        assert {field: found[field] for field in said} == said, page


async def shown(world, page):
    status, text = await world.evaluator.get(page)
    assert status == 200, text
    return json.loads(text)
