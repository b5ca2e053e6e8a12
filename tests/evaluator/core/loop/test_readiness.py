"""When decisions may be used: readiness at startup, after a suspend, and without the API server."""

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import NotReadyError
from tests.evaluator.core.loop.loop_world import KEY, STALE, DecisionLoopWorld
from wire.codec import Delta


def test_not_ready_while_the_api_server_does_not_serve_policies(world, demo):
    world.hear(node_a=0.0, node_b=1.0)
    world.decider.evaluate()
    assert not world.decider.waiting_for
    world.cluster.policies.mark_unserved("TASPolicy CRD is not installed")
    assert world.value("plimsoll_ready") == 0
    with pytest.raises(NotReadyError, match="TASPolicy CRD is not installed"):
        world.decider.current()
    world.cluster.policies.replace([demo()])
    world.decider.evaluate()
    assert world.decider.current().policies


def test_not_ready_until_every_kind_is_listed_and_every_node_has_reported(demo):
    world = DecisionLoopWorld()
    decider = world.decider
    assert list(decider.waiting_for) == ["policies", "nodes", "pods"]
    with pytest.raises(NotReadyError, match="waiting for policies, nodes, pods"):
        decider.current()
    world.know(demo())
    assert decider.waiting_for  # known, but not decided yet
    decider.evaluate()
    assert list(decider.waiting_for) == ["the first report of 2 nodes"]
    world.hear(node_a=0.0)
    decider.evaluate()
    assert list(decider.waiting_for) == ["the first report of 1 node"]
    assert world.value("plimsoll_ready") == 0
    world.hear(node_b=1.0)
    decider.evaluate()
    assert not decider.waiting_for
    assert decider.current() is decider.latest
    assert world.value("plimsoll_ready") == 1


def test_not_ready_but_serving_while_the_watch_is_silent(world):
    world.hear(node_a=0.0, node_b=1.0)
    freshness = world.cluster.staleness
    for kind in ("taspolicies", "nodes", "pods"):
        freshness.observed(kind, world.clock.now)
    world.decider.evaluate()
    world.clock.now += 61
    freshness.observed("pods", world.clock.now)
    world.hear(node_a=1.0, node_b=1.0)
    world.decider.evaluate()
    assert [sentence.split(" from ")[0] for sentence in world.decider.waiting_for] == [
        "updates of taspolicies",
        "updates of nodes",
    ]
    assert world.value("plimsoll_ready") == 0
    (decision,) = world.decider.current().policies.values()
    assert set(decision.dontschedule) == {"node-a", "node-b"}
    freshness.observed("taspolicies", world.clock.now)
    freshness.observed("nodes", world.clock.now)
    assert not world.decider.waiting_for
    assert world.value("plimsoll_ready") == 1


def test_after_a_suspend_nodes_are_pending_until_they_report_again(world):
    """Neither the old readings nor staleness count: this process has not received reports."""
    world.hear(node_a=1.0, node_b=0.0)
    world.decider.evaluate()
    world.clock.now += STALE + 60.0
    decision = world.decider.current().policies[KEY]
    assert decision.unreported == {"node-a", "node-b"}
    assert not decision.dontschedule
    world.hear(node_a=1.0)
    world.decider.evaluate()
    decision = world.decider.current().policies[KEY]
    assert decision.unreported == {"node-b"}
    assert set(decision.dontschedule) == {"node-a"}
    world.clock.now += STALE - 1.0
    world.hear(node_a=1.0)
    world.clock.now += 1.0
    world.decider.evaluate()
    decision = world.decider.current().policies[KEY]
    assert not decision.unreported, "the node has been silent for so long that it is not waited for"
    assert decision.missing["health_metric"] == ("node-b",)


def test_suspend_keeps_labels_and_does_not_wait_for_nodes_stale_before(world):
    world.hear(node_a=2.0, node_b=2.0)
    world.decider.evaluate()
    world.clock.now += STALE / 2
    world.hear(node_a=2.0)
    world.clock.now += STALE / 2 + 0.5
    world.decider.evaluate()
    assert set(world.decider.latest.labels) == {"node-a"}
    world.clock.now += 10 * STALE
    decisions = world.decider.current()
    assert decisions.policies[KEY].unreported == {"node-a"}
    assert decisions.labels == {"node-a": {"demo-policy": "violating"}}


def test_ready_without_silent_nodes_after_the_stale_time(world):
    world.hear(node_a=0.0)
    world.clock.now += STALE
    world.hear(node_a=0.0)
    world.decider.evaluate()
    assert not world.decider.waiting_for


def test_ready_at_once_if_no_policy_names_a_metric():
    world = DecisionLoopWorld()
    world.know()
    world.decider.evaluate()
    assert not world.decider.waiting_for


def test_ready_after_startup_although_a_node_cannot_read_a_source(world):
    world.hear(node_a=0.0)
    world.store.report("node-b", Delta(unread=["health_metric"]), world.clock.now)
    world.decider.evaluate()
    assert world.decider.waiting_for
    world.clock.now += STALE + 1
    world.hear(node_a=0.0)
    world.store.report("node-b", Delta(unread=["health_metric"]), world.clock.now)
    world.decider.evaluate()
    assert not world.decider.waiting_for
    assert world.decider.latest.policies[KEY].unreported == frozenset()


def test_new_policy_does_not_make_a_ready_evaluator_unready(world, demo, parsed, rule):
    world.hear(node_a=0.0, node_b=1.0)
    world.decider.evaluate()
    world.cluster.policies.put(parsed("new", dontschedule=[rule("other Equals 1")]))
    world.decider.evaluate()
    assert not world.decider.waiting_for
    assert world.decider.latest.policies[PolicyKey("ns", "new")].unreported == {"node-a", "node-b"}


def test_stopping_makes_not_ready_permanently(world):
    world.hear(node_a=0.0, node_b=1.0)
    world.decider.evaluate()
    world.decider.stop("the end")
    world.decider.evaluate()
    assert list(world.decider.waiting_for) == ["the end"]
    assert world.decider.current() is world.decider.latest  # earlier requests are answered
    assert world.value("plimsoll_ready") == 0
