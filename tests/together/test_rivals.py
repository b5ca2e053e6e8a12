"""Another client takes away what was written to a node whenever it appears: writes back off, and it is said and counted."""

import asyncio

import pytest

from tests.together.running import SICK, RunningEvaluator, eventually, policy_body

pytestmark = pytest.mark.features("labels", "node_actions")

ACTIONS = {
    "plimsoll.io/actions": "label,taint,condition",
    "plimsoll.io/taint-effect": "NoSchedule",
    "plimsoll.io/max-nodes": "100%",
}


class Rival:
    """A client that takes one of our fields off a node."""

    def __init__(self, api, what):
        self.api, self.what, self.times = api, what, 0

    async def run(self):
        while True:
            node = await self.api.get("/api/v1/nodes/node-a")
            self.times += await getattr(self, self.what)(node)
            await asyncio.sleep(0.01)

    async def taint(self, node):
        if not node["spec"].get("taints"):
            return False
        await self.api.merge("/api/v1/nodes/node-a", {"spec": {"taints": None}})
        return True

    async def label(self, node):
        if "calm" not in node["metadata"].get("labels", {}):
            return False
        await self.api.merge("/api/v1/nodes/node-a", {"metadata": {"labels": {"calm": None}}})
        return True

    async def condition(self, node):
        conditions = node["status"]["conditions"]
        others = [one for one in conditions if one["type"] in {"Ready", "Sick"}]
        if len(others) == len(conditions):
            return False
        await self.api.merge("/api/v1/nodes/node-a/status", {"status": {"conditions": others}})
        return True


@pytest.fixture
async def evaluator(api, connect, tmp_path):
    await api.policies()
    await api.node("node-a")
    await api.node("node-b")
    kube = await connect(api.url)
    made = RunningEvaluator(api, kube, tmp_path, taints=True, conditions=True)
    await made.sick("node-a")
    yield made
    await made.stop()


@pytest.mark.parametrize(
    ("what", "field", "counted"),
    [
        ("taint", "plimsoll.io/default.calm", "taints"),
        ("label", "calm", "labels"),
        ("condition", "plimsoll.io/Calm", "conditions"),
    ],
)
async def test_rival_that_takes_a_field_away_is_named_and_written_against_less_and_less(
    evaluator, api, background, what, field, counted
):
    rival = Rival(api, what)
    background(rival.run())
    await evaluator.make_policy(policy_body("calm", ACTIONS, deschedule={"rules": [SICK]}))
    evaluator.start()

    async def said():
        message = await evaluator.condition("calm")
        return message if "after each write" in message else ""

    message = await eventually(said)
    assert f"{what} {field} on 1 of 2 nodes (node-a) is taken away or changed" in message
    assert rival.times <= 6
    undone = evaluator.sample("plimsoll_node_writes_undone_total", what=counted)
    assert 3 <= undone <= 6
    others = {"taints", "labels", "conditions"} - {counted}
    assert not any(evaluator.sample("plimsoll_node_writes_undone_total", what=w) for w in others)
    assert not evaluator.ended
    (event,) = await eventually(lambda: problem_events(api))
    assert "a part of the policy is not in force" in event["message"]


async def problem_events(api):
    events = (await api.get("/api/v1/namespaces/default/events"))["items"]
    return [one for one in events if one["reason"] == "PolicyProblem"]
