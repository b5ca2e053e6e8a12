"""Rewards are stored in a ConfigMap by the leader, at most every half minute."""

import json

import pytest

from evaluator.core.model.pod_record import decode
from evaluator.core.signals import PodChanged
from evaluator.features.scorers import rewards as module
from evaluator.features.scorers.learning import PAUSE, RewardController
from evaluator.features.scorers.rewards import Rewards, decode_rewards, encode_rewards

PATH = "/api/v1/namespaces/default/configmaps"


class Replica:
    """A reward controller with fake time."""

    def __init__(self, kube, rng, **settings):
        self.now = 1000.0
        self.may_write = True
        self.nodes = {"a", "b"}
        self.rewarder = RewardController(
            kube,
            Rewards(**settings),
            lambda: self.nodes,
            namespace="default",
            name="r",
            is_leader=lambda: self.may_write,
            clock=lambda: self.now,
            wall=lambda: self.now,
            rng=rng,
        )

    def fails(self, kind="web", node="a"):
        """A pod of this kind runs on this node and then fails."""
        self.rewarder.changed(PodChanged(pod("Running", kind, node), pod("Failed", kind, node)))

    async def round(self, after=0.0):
        self.now += after
        await self.rewarder.round()

    def value(self, kind="web", node="a"):
        return self.rewarder.rewards.kinds.get(kind, {}).get(node, 1.0)


def pod(phase, kind="web", node="a", uid="u"):
    meta = {"name": "p", "namespace": "ns", "uid": uid, "labels": {"app": kind}}
    seen = {"ready": True, "restartCount": 0}
    status = {"phase": phase, "containerStatuses": [seen]}
    return decode(
        json.dumps({"metadata": meta, "spec": {"nodeName": node}, "status": status}).encode()
    )


@pytest.fixture
def replica(connect, rng):
    async def make(url, **settings):
        return Replica(await connect(url), rng, **settings)

    return make


async def written(api):
    """The content of the ConfigMap; None if there is none."""
    found = (await api.get(PATH))["items"]
    if not (mine := [one for one in found if one["metadata"]["name"] == "r"]):
        return None
    return decode_rewards(mine[0]["data"], Rewards())


async def test_restart_keeps_all_rewards(api, replica):
    one = await replica(api.url)
    one.fails()
    await one.round()
    assert one.value() == 0.9
    two = await replica(api.url)
    await two.round()
    assert two.value() == 0.9
    two.fails()
    await two.round()
    assert (await written(api)).kinds == {"web": {"a": pytest.approx(0.81)}}


async def test_rewards_are_written_at_most_every_half_minute(api, replica):
    one = await replica(api.url)
    one.fails()
    await one.round()
    one.fails()
    await one.round(PAUSE - 1)
    assert one.value() == pytest.approx(0.81)
    assert (await written(api)).kinds["web"]["a"] == 0.9
    await one.round(1)
    assert (await written(api)).kinds["web"]["a"] == pytest.approx(0.81)


async def test_unchanged_rewards_are_not_written(api, replica):
    one = await replica(api.url)
    one.fails()
    await one.round()
    before = await api.get(f"{PATH}/r")
    learned = one.rewarder.rewards
    one.rewarder.changed(PodChanged(pod("Pending", "db", uid="v"), pod("Succeeded", "db", uid="v")))
    await one.round(PAUSE)
    assert await api.get(f"{PATH}/r") == before
    assert one.rewarder.rewards is learned


async def test_all_replicas_learn_and_the_leader_writes(api, replica):
    one, two = await replica(api.url), await replica(api.url)
    two.may_write = False
    await one.round()
    await two.round()
    for each in (one, two):
        each.fails()
        await each.round(PAUSE)
    assert (one.value(), two.value()) == (0.9, 0.9)
    version = (await api.get(f"{PATH}/r"))["metadata"]["resourceVersion"]
    two.fails()
    await two.round(PAUSE)
    assert (await api.get(f"{PATH}/r"))["metadata"]["resourceVersion"] == version
    two.may_write = True
    two.rewarder.start_over()
    await two.round()
    assert (await written(api)).kinds["web"]["a"] == pytest.approx(0.81)


async def test_write_conflict_reads_again(api, replica):
    one, two = await replica(api.url), await replica(api.url)
    await one.round()
    await two.round()
    one.fails()
    await one.round(PAUSE)
    two.fails("db")
    await two.round(PAUSE)
    assert (await written(api)).kinds.keys() == {"web"}
    await two.round(PAUSE)
    assert (await written(api)).kinds.keys() == {"db"}


async def test_outcomes_wait_until_stored_rewards_are_read(stub_server, answer, replica):
    state = encode_rewards(Rewards().among({"a", "b"}).observed("web", "a", 0))
    found = {"metadata": {"resourceVersion": "7"}, "data": state}
    stub_server.then(answer.refuses(503, message="not yet"), answer.says(200, found))
    stub_server.otherwise(answer.says(200, {"metadata": {"resourceVersion": "8"}}))
    one = await replica(stub_server.url)
    one.fails()
    await one.round()
    await one.round()
    assert (one.value(), len(stub_server.asked)) == (1.0, 1)
    await one.round(60)
    assert one.value() == pytest.approx(0.81)
    await one.round(60)
    assert [asked.method for asked in stub_server.asked] == ["GET", "GET", "PUT"]
    assert stub_server.asked[-1].json["metadata"]["resourceVersion"] == "7"


async def test_corrupt_rewards_are_replaced_and_logged_as_lost(api, replica, log_lines):
    lines = log_lines("json")
    body = {"metadata": {"name": "r"}, "data": {module.KEY: "nonsense"}}
    await api.call("POST", PATH, {"apiVersion": "v1", "kind": "ConfigMap", **body})
    one = await replica(api.url)
    one.fails()
    await one.round()
    assert any("unreadable and dropped" in line for line in lines())
    assert (await written(api)).kinds == {"web": {"a": 0.9}}


async def test_run_without_failure_raises_the_reward_after_its_time(api, replica):
    one = await replica(api.url)
    one.fails()
    one.rewarder.changed(PodChanged(pod("Pending", uid="v"), pod("Running", uid="v")))
    await one.round()
    await one.round(299)
    assert one.value() == 0.9
    await one.round(1)
    assert one.value() == pytest.approx(0.91)


async def test_new_node_starts_at_the_mean(api, replica):
    one = await replica(api.url)
    one.nodes = set()  # not listed yet
    await one.round()
    one.nodes = {"a", "b"}
    one.fails()
    await one.round()
    for nodes in (set(), {"a", "b", "c"}):
        one.nodes = nodes
        await one.round()
    assert one.value(node="c") == pytest.approx(0.95)


async def test_dropped_kinds_are_logged(api, replica, log_lines):
    lines = log_lines("json")
    one = await replica(api.url, most_bytes=60)
    one.fails("web")
    one.fails("db")
    await one.round()
    (line,) = [json.loads(line) for line in lines() if "too many kinds of pods" in line]
    assert (line["kinds"], line["left"]) == (1, 1)
    assert (await written(api)).kinds.keys() == {"db"}
