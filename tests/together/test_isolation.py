"""What one object, one answer of the API server or one reading raises costs that object; the others are handled, the loops go on."""

from functools import reduce

import pytest

from evaluator.core.kube.client import Kube
from evaluator.core.policy import decide, parse
from evaluator.features.history import plan as history
from evaluator.features.node_actions.limit import NodeLimit
from evaluator.features.node_actions.plan import ActingPolicy
from evaluator.features.status import controller as statuses
from evaluator.features.status import plan as events
from tests.together.running import SICK, RunningEvaluator, eventually, policy_body

ACTIONS = {
    "plimsoll.io/actions": "label,taint,condition",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
}
EVERY = NodeLimit(100, percent=True)
NAMED = ("key", "policy", "pod", "metadata", "name", "node", "violated", "rules")


class OddError(Exception):
    """What nobody expected."""


def names_odd(value, depth=3):
    """Whether a value is, or is about, the odd object."""
    if isinstance(value, str):
        return value in {"odd", "node-odd"} or value.startswith("odd-")
    if isinstance(value, dict):
        return any(names_odd(one, depth - 1) for one in value.values()) if depth else False
    if isinstance(value, tuple):
        return any(names_odd(one, 0) for one in value)
    found = (getattr(value, name, None) for name in NAMED)
    return depth > 0 and any(names_odd(one, depth - 1) for one in found if one is not None)


def raising(monkeypatch, owner, name):
    """Let a function or method raise where it is about the odd object."""
    usual = getattr(owner, name)

    def odd(*given, **more):
        if any(map(names_odd, (*given, *more.values()))):
            raise OddError(name)
        return usual(*given, **more)

    monkeypatch.setattr(owner, name, odd)


@pytest.fixture
async def evaluator(api, connect, tmp_path):
    await api.policies()
    for node in ("node-even", "node-odd"):
        await api.node(node)
    kube = await connect(api.url)
    made = RunningEvaluator(
        api, kube, tmp_path, taints=True, conditions=True, max_acted_nodes=EVERY
    )
    for node in ("node-even", "node-odd"):
        await made.sick(node)
    for policy in ("even", "odd"):
        kind = {"plimsoll.io/condition-type": f"plimsoll.io/{policy.capitalize()}"}
        await made.make_policy(policy_body(policy, ACTIONS | kind, deschedule={"rules": [SICK]}))
    yield made
    await made.stop()


async def written(api, node="node-even"):
    """The label, taint and condition of the even policy on a node."""
    found = await api.get(f"/api/v1/nodes/{node}")
    return (
        found["metadata"].get("labels", {}).get("even") == "violating"
        and any(one["key"].endswith("default.even") for one in found["spec"].get("taints", ()))
        and any(one["type"] == "plimsoll.io/Even" for one in found["status"]["conditions"])
    )


async def said(evaluator):
    """The status of the even policy, and its Event."""
    message = await evaluator.condition("even", "DescheduleViolated")
    listed = (await evaluator.api.get("/api/v1/namespaces/default/events"))["items"]
    about = [one for one in listed if one["involvedObject"]["name"] == "even"]
    return message and any(one["reason"] == "StrategyViolated" for one in about)


CASES = {
    "decision": (decide, "_decision"),
    "decoding": (parse, "parse"),
    "plan of actions": (ActingPolicy, "plan"),
    "status": (statuses, "status_of"),
    "state for Events": (events, "reported_state"),
    "history": (history, "_edit"),
    "answer to a status": (Kube, "patch_policy_status"),
    "answer to an Event": (Kube, "create_event"),
    "answer to labels": (Kube, "apply_node_labels"),
    "answer to taints": (Kube, "patch_node"),
    "answer to conditions": (Kube, "apply_node_conditions"),
}


@pytest.mark.parametrize("case", CASES)
async def test_odd_object_costs_no_other_anything(evaluator, api, monkeypatch, log_lines, case):
    lines = log_lines("logfmt")
    raising(monkeypatch, *CASES[case])
    evaluator.start()
    await eventually(lambda: written(api))
    await eventually(lambda: said(evaluator))

    async def counted():
        return reduce(max, evaluator.errors().values(), 0.0)

    assert await eventually(counted) >= 1
    said_by = [part for part, count in evaluator.errors().items() if count]
    tracebacks = sum(line.count("Traceback") for line in lines() if "OddError" in line)
    assert tracebacks == len(said_by)  # Events of policies and of nodes have a writer each
    assert not evaluator.ended


async def test_policy_whose_decision_raises_says_so_in_status_and_event(
    evaluator, api, monkeypatch
):
    evaluator.start()
    await eventually(lambda: evaluator.condition("odd", "DescheduleViolated"))
    raising(monkeypatch, decide, "_decision")
    await evaluator.sick("node-even", "False")

    async def kept():
        return "internal error" in await evaluator.condition("odd")

    await eventually(kept)
    assert "node-even" in await evaluator.condition("odd", "DescheduleViolated")

    async def problem():
        listed = (await api.get("/api/v1/namespaces/default/events"))["items"]
        return [one for one in listed if "internal error" in one["message"]]

    (event,) = await eventually(problem)
    assert (event["involvedObject"]["name"], event["type"]) == ("odd", "Warning")

    async def opened():
        found = await api.get("/api/v1/nodes/node-even")
        keys = {one["key"] for one in found["spec"].get("taints", ())}
        return keys == {"plimsoll.io/default.odd"}  # what it set stays; the other policy cleared

    await eventually(opened)
