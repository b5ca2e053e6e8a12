"""The gang controller on the sandbox's API server: released pods, and leadership."""

import asyncio

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.core.signals import Decided
from evaluator.features.gangs.controller import ANOTHER, UNLISTED
from evaluator.features.gangs.core.membership import ADMITTED, GATE
from evaluator.features.gangs.core.types import GangState
from tests.evaluator.features.gangs.replicas import PODS, bind, free, going, node, pods


async def test_gang_waits_for_its_last_pod_and_is_ungated_whole(api, replica, held, until):
    one = await replica()
    await held("train", "a")
    await until(lambda: one.state("train") is GangState.INCOMPLETE)
    assert await going(api) == set()
    assert one.sample("gangs", state="Incomplete") == 1
    assert one.sample("gang_pods_gated") == 1
    await held("train", "b")
    await free(api, "a", "b")
    for pod in (await pods(api)).values():
        assert pod["metadata"]["annotations"][ADMITTED]
    await until(lambda: one.state("train") is GangState.RELEASED)
    assert one.sample("gang_releases_total", reason="admitted") == 1
    assert one.sample("gang_gates_lifted_total", result="ok") == 2
    assert one.sample("gang_wait_seconds_count") == 1
    assert one.sample("gang_pods_gated") == 0
    await bind(api, "a", "b")
    await until(lambda: one.state("train") is GangState.SCHEDULED)


async def test_gates_of_others_stay(api, replica, held):
    await replica()
    await held("train", "a", "b")
    await held("train", "c", gates=("a.io/first", GATE, "b.io/last"))
    await free(api, "a", "b")
    patch = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    await api.call("PATCH", f"{PODS}/c", patch, "application/json-patch+json")
    patch = [{"op": "remove", "path": "/spec/schedulingGates/1"}]
    await api.call("PATCH", f"{PODS}/c", patch, "application/json-patch+json")
    await free(api, "a", "b", "c")


async def test_gangs_are_ungated_one_by_one_by_priority(api, replica, held, until):
    one = await replica(leads=False)
    await held("later", "l0", "l1")
    await held("first", "f0", "f1", groupPriority="9")
    one.fence.extend()
    await free(api, "f0", "f1")
    await until(lambda: one.state("later") is GangState.WAITS_FOR_TURN)
    assert one.sample("gang_oldest_wait_seconds") > 0
    await bind(api, "f0", "f1")
    await free(api, "f0", "f1", "l0", "l1")


async def test_fitting_gang_passes_one_that_does_not_fit(api, replica, held, until):
    one = await replica(leads=False)
    await held("large", "l0", "l1", cpu="5", groupPriority="9")
    await held("huge", "h0", "h1", cpu="9", groupPriority="8")
    await held("small", "s0", "s1")
    one.fence.extend()
    await free(api, "s0", "s1")
    await until(lambda: one.state("small") is GangState.RELEASED)
    await bind(api, "s0", "s1")
    await until(lambda: one.state("large") is GangState.TOO_LARGE)
    assert one.state("huge") is GangState.TOO_LARGE
    await node(api, "node-b")
    await free(api, "s0", "s1", "l0", "l1")


async def test_node_rejected_by_the_policy_has_no_capacity(api, replica, held, until):
    one = await replica(leads=False)
    key = PolicyKey("default", "demo")
    refused = Decision(Policy(key), {StrategyName.DONTSCHEDULE: {"node-a": "too hot"}})
    one.decided.latest = Decisions(MetricTable(("node-a",), {}), {key: refused})
    await held("train", "a", "b", **{"telemetry-policy": "demo"})
    one.fence.extend()
    await until(lambda: one.state("train") is not None)
    assert one.state("train").waits
    one.decided.latest = Decisions(MetricTable(("node-a",), {}), {key: Decision(Policy(key))})
    one.signals.publish(Decided(one.decided.latest, 0.0))
    await free(api, "a", "b")


async def test_only_the_leader_decides(api, replica, held, until):
    one, other = await replica(leads=False), await replica()
    assert one.gang_controller.undecided() == (ANOTHER,)
    await held("train", "a", "b")
    await free(api, "a", "b")
    await until(lambda: other.state("train") is GangState.RELEASED)
    assert one.gang_controller.decisions.verdicts == {}
    assert one.sample("gangs", state="Released") == 0
    assert one.sample("gang_releases_total", reason="admitted") is None


async def test_nothing_is_decided_on_a_stale_cache(api, replica, held, until):
    one = await replica(leads=False)
    one.decided.waiting_for = ["news of nodes"]
    await held("train", "a", "b")
    one.fence.extend()
    await until(lambda: len(one.inventory.pods.objects) == 2)
    await until(lambda: list(one.gang_controller.undecided()) == ["news of nodes"])
    one.gang_controller.wake()
    await until(lambda: not one.gang_controller._wakeup.is_set())
    assert await going(api) == set()
    one.decided.waiting_for = []
    one.signals.publish(Decided(one.decided.latest, 0.0))
    await free(api, "a", "b")


async def test_nothing_is_decided_before_a_list_begun_later(api, replica, held, until):
    """The cache of a new leader may be old: another replica has written meanwhile."""
    one = await replica(leads=False)
    await held("train", "a", "b")
    await until(lambda: len(one.inventory.pods.objects) == 2)
    asked, tell = [], asyncio.get_running_loop().create_future()
    one.gang_controller._list_anew = lambda: asked.append(1) or tell
    one.fence.extend()
    await until(lambda: asked)
    one.gang_controller.wake()
    await until(lambda: not one.gang_controller._wakeup.is_set())
    assert one.gang_controller.undecided() == (UNLISTED,)
    assert await going(api) == set()
    tell.set_result(None)
    await free(api, "a", "b")


async def test_replacement_is_ungated_at_once_although_others_wait(api, replica, held, until):
    one = await replica()
    await held("train", "a", "b")
    await free(api, "a", "b")
    await bind(api, "a", "b")
    await held("large", "l0", "l1", cpu="7", groupPriority="9")
    await until(lambda: one.state("large") is not None)
    await api.call("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    await held("train", "c")
    await free(api, "b", "c")
    await until(lambda: one.sample("gang_releases_total", reason="replacement") == 1)


async def test_overdue_pod_is_ungated_with_a_warning_event(api, replica, held, until):
    one = await replica(gate_max_age=1.0)
    await held("train", "a")
    await free(api, "a")
    assert one.sample("gang_releases_total", reason="overdue") == 1
    path = "/api/v1/namespaces/default/events"
    await api.seen(path, lambda found: "GangOverdue" in {one["reason"] for one in found["items"]})


async def test_timeouts_are_counted(api, replica, held, until):
    one = await replica(gang_timeout=0.3, gang_backoff=0.2)
    await held("first", "f0", "f1")
    await free(api, "f0", "f1")
    await until(lambda: one.state("first") is GangState.TIMED_OUT)
    assert one.sample("gang_timeouts_total") >= 1
    await held("second", "s0", "s1")
    await free(api, "f0", "f1", "s0", "s1")
