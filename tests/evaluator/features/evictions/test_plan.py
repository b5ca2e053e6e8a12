"""Which pods are evicted: those of a violated policy, rate-limited, if another node can take them."""

import pytest

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus, Taint
from evaluator.core.model.pod import Owner, Pod, PodMeta, PodSpec, PodStatus
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Actions, Policy
from evaluator.features.evictions import plan as evictions
from evaluator.features.evictions.annotations import EVICTED_PODS
from evaluator.features.evictions.history import EvictionHistory
from evaluator.features.evictions.plan import ClusterView, EvictionRate

KEY = PolicyKey("ns", "demo")
REASON = "violating demo: health Equals 2"
NOW = 1000.0


def node(name="n", *, labels=None, ready="True", **spec):
    return Node(
        NodeMeta(name=name, labels=labels or {}),
        NodeSpec(**spec),
        NodeStatus([NodeCondition("Ready", ready)]),
    )


OWNER = Owner("ReplicaSet", "web-5", "uid-of-web-5")


def pod(name="web", on="sick", *, policy="demo", namespace="ns", phase="Running", **spec):
    labels = {"telemetry-policy": policy} if policy else {}
    meta = {
        field: spec.pop(field, default)
        for field, default in (
            ("uid", f"uid-{name}"),
            ("controller", OWNER),
            ("annotations", None),
            ("creation_timestamp", None),
        )
    }
    deleted = spec.pop("deleted", None)
    return Pod(
        PodMeta(name=name, namespace=namespace, labels=labels, deletion_timestamp=deleted, **meta),
        PodSpec(node_name=on, **spec),
        PodStatus(phase),
    )


def decided(*, sick=("sick",), unwelcome=(), unreported=(), key=KEY, policy=None):
    return Decisions(
        policies={
            key: Decision(
                policy or Policy(key),
                {
                    StrategyName.DESCHEDULE: dict.fromkeys(sick, REASON),
                    StrategyName.DONTSCHEDULE: dict.fromkeys(unwelcome, REASON),
                },
                unreported=frozenset(unreported),
            )
        }
    )


def history(recent=None):
    """A history with evictions at these times, by policy."""
    made = EvictionHistory()
    made.restore(recent or {})
    return made


def planned_for(
    pods, nodes=None, decisions=None, *, past=None, period=10.0, limit=1, now=NOW, **more
):
    """The plans of policies, given the feasible nodes."""
    nodes = [node("sick"), node("well")] if nodes is None else nodes
    feasible = FeasibleNodes({n.metadata.name: n for n in nodes})
    running = PodsByPolicy(lambda pod: pod.running)
    for one in pods:
        running.change(None, one)
    cluster = ClusterView(running=running, feasible_nodes=feasible, **more)

    def plan():
        pace, last = EvictionRate(period, limit), past or history()
        return list(evictions.plan(decisions or decided(), cluster, last, rate=pace, now=now))

    assert not any(found.due for found in plan()), "none before nodes were checked"
    for _ in feasible.catching_up():
        pass
    return plan()


def evicted(*args, **more):
    """The evictions that are due."""
    return [eviction for plan in planned_for(*args, **more) for eviction in plan.due]


def planned(*args, recent=None, past=None, **more):
    """The names of the evicted pods."""
    past = history(recent) if recent else past
    return [str(eviction.pod) for eviction in evicted(*args, past=past, **more)]


def stays(*args, **more):
    """The names of the pods that stay, by why."""
    (plan,) = planned_for(*args, **more)
    return {why: sorted(map(str, pods)) for why, pods in plan.stays.items()}


def test_pod_on_a_violating_node_is_evicted_with_the_reason():
    (found,) = evicted([pod()])
    assert (found.policy, str(found.pod), found.reason) == (KEY, "ns/web", REASON)


@pytest.mark.parametrize(
    "other",
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
def test_other_pods_stay(other):
    assert planned([other]) == []


def test_nothing_is_evicted_without_a_violation():
    assert planned([pod()], decisions=decided(sick=())) == []
    assert planned([pod()], decisions=decided(sick=(), unwelcome=["sick"])) == []


def at(minute):
    return f"2026-11-26T10:{minute:02}:00Z"


def test_youngest_of_equal_pods_leaves_first_whatever_its_name():
    young, old = pod("b", creation_timestamp=at(7)), pod("a", creation_timestamp=at(3))
    unknown = pod("0")
    assert planned([old, unknown, young]) == planned([young, old, unknown]) == ["ns/b"]
    assert planned([old, unknown, young], limit=2) == ["ns/b", "ns/a"]


def test_lowest_priority_leaves_first():
    payments = pod("a-payments", priority=1_000_000, creation_timestamp=at(9))
    batch, best_effort = pod("z-batch"), pod("y", priority=-10)
    assert planned([payments, batch, best_effort], limit=3) == [
        "ns/y",
        "ns/z-batch",
        "ns/a-payments",
    ]


def test_pod_most_above_its_request_leaves_first_within_a_priority():
    usage = {"ns/hungry": 3.0, "ns/modest": -1.0, "ns/unknown": None, "ns/important": 9.0}
    pods = [
        pod("modest", creation_timestamp=at(9)),
        pod("unknown"),
        pod("hungry", creation_timestamp=at(1)),
        pod("important", priority=1),
    ]
    found = planned(pods, limit=4, above_request=lambda pod: usage[str(pod)])
    assert found == ["ns/hungry", "ns/unknown", "ns/modest", "ns/important"]


ANNOTATED = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (pod(controller=None), "nothing would recreate them"),
        (pod(annotations={"kubernetes.io/config.mirror": "1d7f"}), "static pods of the kubelet"),
        (pod(controller=Owner("Node", "sick", "u")), "static pods of the kubelet"),
        (pod(priority=2_000_000_000), "2,000,000,000 or more"),
        (pod(priority=2_000_001_000), "2,000,000,000 or more"),
        (pod(annotations={ANNOTATED: "false"}), "forbids it"),
        (pod(annotations={ANNOTATED: " False"}), "forbids it"),
        (pod(annotations={"karpenter.sh/do-not-disrupt": "true"}), "forbids it"),
        (pod(controller=Owner("Job", "j", "u")), "they belong to Jobs"),
    ],
)
def test_pods_that_are_never_evicted_stay_and_are_named(kept, why):
    (found,) = stays([kept, pod("web-2")]).items()
    assert why in found[0]
    assert found[1] == ["ns/web"]
    assert planned([kept, pod("web-2")]) == ["ns/web-2"]


@pytest.mark.parametrize(
    "leaves",
    [
        pod(priority=1_999_999_999),
        pod(annotations={ANNOTATED: "true"}),
        pod(annotations={"karpenter.sh/do-not-disrupt": "false"}),
        pod(controller=Owner("StatefulSet", "db", "u")),
    ],
)
def test_pods_like_those_that_stay_leave(leaves):
    assert planned([leaves]) == ["ns/web"]


def test_policy_admits_bare_pods_and_pods_of_jobs_by_its_annotation():
    bare, job = pod("bare", controller=None), pod("job", controller=Owner("Job", "j", "u"))
    static = pod("static", controller=None, annotations={"kubernetes.io/config.mirror": "1"})

    def leave(text):
        problems = []
        part = EVICTED_PODS.parse("demo", {"plimsoll.io/evict": text}, frozenset(), problems)
        policy = Policy(KEY, actions=Actions(parts=(part,)))
        found = planned([bare, job, static], decisions=decided(policy=policy), limit=9)
        return sorted(found), problems

    assert leave("bare-pods") == (["ns/bare"], [])
    assert leave("jobs") == (["ns/job"], [])
    assert leave("bare-pods, jobs") == (["ns/bare", "ns/job"], [])
    found, (problem,) = leave("barepods,jobs")
    assert found == ["ns/job"]
    assert (
        problem
        == "annotation plimsoll.io/evict: 'barepods' is neither bare-pods nor jobs: left out"
    )


def test_refused_pod_rests_and_the_others_leave():
    past, (bad, good) = history(), (pod("bad", priority=-1), pod("good"))
    past.refused(bad, "budget db", NOW, budget=False)
    assert planned_for([bad, good], past=past)[0].due[0].pod is good
    assert stays([bad, good], past=past) == {"budget db": ["ns/bad"]}
    assert evicted([bad, good], past=past, now=NOW + 5.0)[0].pod is bad


def test_budget_rests_the_pods_of_the_same_owner_and_no_others():
    other = Owner("ReplicaSet", "web", "u")
    one, two, web = pod("db-1"), pod("db-2"), pod("web", controller=other)
    past = history()
    past.refused(one, "budget db", NOW, budget=True)
    assert stays([one, two, web], past=past) == {"budget db": ["ns/db-1", "ns/db-2"]}
    past = history()
    past.refused(one, "a webhook", NOW, budget=False)
    assert stays([one, two, web], past=past, limit=2) == {"a webhook": ["ns/db-1"]}


def test_rest_of_a_refused_pod_grows_to_a_minute():
    past, rests, now = history(), [], NOW
    for _ in range(7):
        past.refused(pod(), "budget", now, budget=False)
        (plan,) = planned_for([pod()], past=past, now=now)
        rests.append(plan.again_at - now)
        now = plan.again_at
    assert rests == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0]


def test_attempts_are_limited_and_pods_refused_again_and_again_come_last():
    blocked = [pod(f"blocked-{number}", priority=-9) for number in range(50)]
    last, past, now = pod("last", priority=5), history(), NOW
    for _ in range(500):
        (plan,) = planned_for([*blocked, last], past=past, now=now)
        assert len(plan.evictions) <= 5
        for eviction in plan.evictions:
            if eviction.pod is last:
                return
            past.attempted(KEY, now)
            past.refused(eviction.pod, "budget", now, budget=False)
        now += 10.0
    pytest.fail("the pod that could leave was never tried")


def test_only_evictions_that_happened_count_for_the_hour():
    past = history()
    for _ in range(30):
        past.attempted(KEY, NOW - 100)
        past.refused(pod(), "budget", NOW - 100, budget=False)
    assert [str(one.pod) for one in evicted([pod()], past=past)] == ["ns/web"]


def test_hour_that_is_used_up_is_said_and_ends():
    past = history({KEY: [NOW - 3000.0] * 6})
    assert stays([pod()], past=past) == {evictions.HOUR_USED_UP: ["ns/web"]}
    (plan,) = planned_for([pod()], past=past)
    assert plan.again_at == NOW + 600.0


def test_successor_on_the_same_node_waits_ever_longer_and_it_is_said():
    past, now, waits = history(), NOW, []
    pods = [pod("web-0"), pod("web-1")]
    past.evicted(KEY, pods[0], pods, now)
    now += 10.0
    assert planned([pods[1]], past=past, now=now) == ["ns/web-1"], "an original, no successor"
    past.evicted(KEY, pods[1], pods[1:], now)
    for number in range(4):
        successor = pod(f"web-{number + 2}")
        (plan,) = planned_for([successor], past=past, now=now + 10.0)
        assert list(plan.stays) == [evictions.RETURNED]
        waits.append(plan.again_at - now)
        now = plan.again_at
        assert planned([successor], past=past, now=now) == [str(successor)]
        past.evicted(KEY, successor, [successor], now)
    assert waits == [60.0, 300.0, 1500.0, 1500.0]


def test_successor_on_another_node_or_after_the_violation_leaves_at_once():
    both, other = decided(sick=("sick", "ill")), [node("sick"), node("ill"), node("well")]
    past = history()
    past.evicted(KEY, pod("web-0"), [pod("web-0")], NOW - 20)
    assert planned([pod("web-1", on="ill")], other, both, past=past) == ["ns/web-1"]
    past.forget(NOW, 10.0, decided(sick=()).policies)
    assert planned([pod("web-1")], past=past) == ["ns/web-1"]


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
    assert sorted(planned(pods, nodes, decisions, limit=5)) == ["ns/a", "ns/b"]
    assert planned(pods, nodes, decisions, limit=5, may_evict=lambda _, on: on == "ill") == ["ns/b"]


def test_node_that_is_leaving_is_no_alternative():
    assert planned([pod()], leaving={"well"}) == []
    nodes = [node("sick"), node("well"), node("other")]
    assert planned([pod()], nodes, leaving={"well"}) == ["ns/web"]
