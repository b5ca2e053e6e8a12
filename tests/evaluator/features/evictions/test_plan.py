"""Which pods are evicted: those of a violated policy, rate-limited, if another node can take them."""

import pytest

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import ObjectMeta, PolicyKey
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus, Taint
from evaluator.core.model.pod import Pod, PodSpec, PodStatus
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.features.evictions import plan as evictions
from evaluator.features.evictions.plan import EvictionRate

KEY = PolicyKey("ns", "demo")
REASON = "violating demo: health Equals 2"
NOW = 1000.0


def node(name="n", *, labels=None, ready="True", **spec):
    return Node(
        NodeMeta(name=name, labels=labels or {}),
        NodeSpec(**spec),
        NodeStatus([NodeCondition("Ready", ready)]),
    )


def pod(name="web", on="sick", *, policy="demo", namespace="ns", phase="Running", **spec):
    labels = {"telemetry-policy": policy} if policy else {}
    deleted = spec.pop("deleted", None)
    return Pod(
        ObjectMeta(name=name, namespace=namespace, labels=labels, deletion_timestamp=deleted),
        PodSpec(node_name=on, **spec),
        PodStatus(phase),
    )


def decided(*, sick=("sick",), unwelcome=(), unreported=(), key=KEY):
    return Decisions(
        policies={
            key: Decision(
                Policy(key),
                {
                    StrategyName.DESCHEDULE: dict.fromkeys(sick, REASON),
                    StrategyName.DONTSCHEDULE: dict.fromkeys(unwelcome, REASON),
                },
                unreported=frozenset(unreported),
            )
        }
    )


def evicted(pods, nodes=None, decisions=None, *, recent=None, period=10.0, limit=1, **more):
    """The evictions, given the feasible nodes."""
    nodes = [node("sick"), node("well")] if nodes is None else nodes
    places, running = (
        FeasibleNodes({n.metadata.name: n for n in nodes}),
        PodsByPolicy(lambda pod: pod.running),
    )
    for one in pods:
        running.change(None, one)

    def plan():
        pace = EvictionRate(period, limit)
        found = evictions.plan(
            decisions or decided(), running, places, recent or {}, rate=pace, now=NOW, **more
        )
        return [eviction for eviction in found if eviction is not None]

    assert plan() == [], "none before nodes were checked"
    for _ in places.catching_up():
        pass
    return plan()


def planned(*args, **kwargs):
    """The names of the evicted pods."""
    return [str(eviction.pod) for eviction in evicted(*args, **kwargs)]


def test_pod_on_a_violating_node_is_evicted_with_the_reason():
    (found,) = evicted([pod()])
    assert (found.policy, str(found.pod), found.reason) == (KEY, "ns/web", REASON)


@pytest.mark.parametrize(
    "stays",
    [
        pod(on="well"),
        pod(on=""),
        pod(policy=None),
        pod(policy="other"),
        pod(namespace="elsewhere"),
        pod(phase="Succeeded"),
        pod(phase="Failed"),
        pod(deleted="2026-01-01T00:00:00Z"),
    ],
    ids=[
        "healthy node",
        "not bound",
        "no policy",
        "another policy",
        "another namespace",
        "succeeded",
        "failed",
        "terminating",
    ],
)
def test_other_pods_stay(stays):
    assert planned([stays]) == []


def test_nothing_is_evicted_without_a_violation():
    assert planned([pod()], decisions=decided(sick=())) == []
    assert planned([pod()], decisions=decided(sick=(), unwelcome=["sick"])) == []


def test_one_pod_per_policy_and_period_is_evicted_deterministically():
    pods = [pod("b"), pod("a"), pod("c")]
    assert planned(pods) == planned(pods[::-1]) == ["ns/a"]


def test_more_pods_are_evicted_if_allowed():
    assert planned([pod("b"), pod("a"), pod("c")], limit=2) == ["ns/a", "ns/b"]


@pytest.mark.parametrize(
    ("times", "leave"),
    [
        ((NOW - 9.9,), []),
        ((NOW - 10.0,), ["ns/web"]),
        ((NOW - 100.0, NOW - 1.0), []),
        ((NOW - 100.0, NOW - 99.0), ["ns/web"]),
    ],
)
def test_recent_evictions_count_towards_the_period(times, leave):
    assert planned([pod()], recent={KEY: times}) == leave


def test_each_policy_has_its_own_rate():
    other = PolicyKey("ns", "other")
    both = Decisions(policies={**decided().policies, **decided(key=other).policies})
    pods = [pod("a"), pod("b", policy="other")]
    assert planned(pods, decisions=both) == ["ns/a", "ns/b"]
    assert planned(pods, decisions=both, recent={KEY: (NOW,)}) == ["ns/b"]


def test_pod_without_an_alternative_does_not_use_up_the_rate():
    stuck = pod("a", node_selector={"disk": "ssd"})
    assert planned([stuck, pod("b")]) == ["ns/b"]


@pytest.mark.parametrize(
    ("alternative", "decisions"),
    [
        (node("well", ready="False"), decided()),
        (node("well", ready="Unknown"), decided()),
        (Node(NodeMeta(name="well")), decided()),
        (node("well", unschedulable=True), decided()),
        (node("well", taints=[Taint("k", "v", "NoSchedule")]), decided()),
        (node("well", taints=[Taint("k", "v", "NoExecute")]), decided()),
        (node("well"), decided(sick=["sick", "well"])),
        (node("well"), decided(unwelcome=["well"])),
        (node("well"), decided(unreported=["well"])),
    ],
    ids=[
        "not ready",
        "phase unknown",
        "no status",
        "cordoned",
        "tainted",
        "NoExecute",
        "violating too",
        "rejected by the policy",
        "pending",
    ],
)
def test_pod_without_an_alternative_node_stays(alternative, decisions):
    assert planned([pod()], [node("sick"), alternative], decisions) == []


def test_only_node_is_no_alternative():
    assert planned([pod()], [node("sick")]) == []


def test_pods_on_nodes_over_the_limit_stay():
    pods = [pod("a", on="sick"), pod("b", on="ill")]
    nodes = [node("sick"), node("ill"), node("well")]
    decisions = decided(sick=("sick", "ill"))
    assert planned(pods, nodes, decisions, limit=5) == ["ns/a", "ns/b"]
    assert planned(pods, nodes, decisions, limit=5, may_evict=lambda _, on: on == "ill") == ["ns/b"]


def test_node_that_is_leaving_is_no_alternative():
    assert planned([pod()], leaving={"well"}) == []
    nodes = [node("sick"), node("well"), node("other")]
    assert planned([pod()], nodes, leaving={"well"}) == ["ns/web"]
