"""Which pods leave: those of a violated policy, at their pace, and only where somebody else would take them."""

import pytest

from evaluator import evictions
from evaluator.decisions import Decision, Decisions
from evaluator.evictions import Pace
from evaluator.objects import (
    Affinity,
    Condition,
    Meta,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Requirement,
    Taint,
    Toleration,
)
from evaluator.policy import Policy, PolicyKey

KEY = PolicyKey("ns", "demo")
REASON = "violating demo: health Equals 2"
NOW = 1000.0


def node(name="n", *, labels=None, ready="True", **spec):
    return Node(
        Meta(name=name, labels=labels or {}),
        NodeSpec(**spec),
        NodeStatus([Condition("Ready", ready)]),
    )


def pod(name="web", on="sick", *, policy="demo", namespace="ns", phase="Running", **spec):
    labels = {"telemetry-policy": policy} if policy else {}
    deleted = spec.pop("deleted", None)
    return Pod(
        Meta(name=name, namespace=namespace, labels=labels, deletion_timestamp=deleted),
        PodSpec(node_name=on, **spec),
        PodStatus(phase),
    )


def decided(*, sick=("sick",), unwelcome=(), awaited=(), key=KEY):
    return Decisions(
        policies={
            key: Decision(
                Policy(key),
                deschedule=dict.fromkeys(sick, REASON),
                dontschedule=dict.fromkeys(unwelcome, REASON),
                awaited=frozenset(awaited),
            )
        }
    )


def planned(pods, nodes=None, decisions=None, *, recent=None, period=10.0, limit=1):
    """The names of the pods that leave."""
    nodes = [node("sick"), node("well")] if nodes is None else nodes
    plan = evictions.plan(
        decisions or decided(),
        pods,
        {n.metadata.name: n for n in nodes},
        recent or {},
        pace=Pace(period, limit),
        now=NOW,
    )
    return [str(eviction.pod) for eviction in plan]


def test_a_pod_on_a_violating_node_leaves_with_the_reason():
    (found,) = evictions.plan(
        decided(),
        [pod()],
        {"sick": node("sick"), "well": node("well")},
        {},
        pace=Pace(10.0, 1),
        now=NOW,
    )
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
        "not placed",
        "no policy",
        "another policy",
        "another namespace",
        "done",
        "failed",
        "already leaving",
    ],
)
def test_other_pods_stay(stays):
    assert planned([stays]) == []


def test_nothing_leaves_where_nothing_is_violated():
    assert planned([pod()], decisions=decided(sick=())) == []
    assert planned([pod()], decisions=decided(sick=(), unwelcome=["sick"])) == []


def test_one_pod_of_a_policy_leaves_in_a_period_and_always_the_same_one():
    pods = [pod("b"), pod("a"), pod("c")]
    assert planned(pods) == planned(pods[::-1]) == ["ns/a"]


def test_more_leave_where_more_are_allowed():
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
def test_what_left_lately_uses_up_the_period(times, leave):
    assert planned([pod()], recent={KEY: times}) == leave


def test_each_policy_has_a_pace_of_its_own():
    other = PolicyKey("ns", "other")
    both = Decisions(policies={**decided().policies, **decided(key=other).policies})
    pods = [pod("a"), pod("b", policy="other")]
    assert planned(pods, decisions=both) == ["ns/a", "ns/b"]
    assert planned(pods, decisions=both, recent={KEY: (NOW,)}) == ["ns/b"]


def test_a_pod_that_cannot_go_anywhere_does_not_use_up_the_turn_of_one_that_can():
    stuck = pod("a", node_selector={"disk": "ssd"})
    assert planned([stuck, pod("b")]) == ["ns/b"]


@pytest.mark.parametrize(
    ("refuge", "decisions"),
    [
        (node("well", ready="False"), decided()),
        (node("well", ready="Unknown"), decided()),
        (Node(Meta(name="well")), decided()),
        (node("well", unschedulable=True), decided()),
        (node("well", taints=[Taint("k", "v", "NoSchedule")]), decided()),
        (node("well", taints=[Taint("k", "v", "NoExecute")]), decided()),
        (node("well"), decided(sick=["sick", "well"])),
        (node("well"), decided(unwelcome=["well"])),
        (node("well"), decided(awaited=["well"])),
    ],
    ids=[
        "not ready",
        "lost",
        "no status",
        "cordoned",
        "tainted",
        "NoExecute",
        "sick too",
        "unwelcome",
        "unknown yet",
    ],
)
def test_without_a_refuge_a_pod_stays(refuge, decisions):
    assert planned([pod()], [node("sick"), refuge], decisions) == []


def test_the_only_node_is_no_refuge():
    assert planned([pod()], [node("sick")]) == []


def expects(key, operator, *values):
    return Requirement(key, operator, list(values))


def affinity(*terms, fields=()):
    terms = [NodeSelectorTerm(match_expressions=list(term)) for term in terms]
    terms += [NodeSelectorTerm(match_fields=list(field)) for field in fields]
    return Affinity(NodeAffinity(NodeSelector(terms)))


LABELS = {"disk": "ssd", "gen": "7"}


@pytest.mark.parametrize(
    ("required", "takes"),
    [
        ([expects("disk", "In", "ssd", "hdd")], True),
        ([expects("disk", "In", "hdd")], False),
        ([expects("no", "In", "x")], False),
        ([expects("disk", "NotIn", "hdd")], True),
        ([expects("disk", "NotIn", "ssd")], False),
        ([expects("no", "NotIn", "x")], True),
        ([expects("disk", "Exists")], True),
        ([expects("no", "Exists")], False),
        ([expects("no", "DoesNotExist")], True),
        ([expects("disk", "DoesNotExist")], False),
        ([expects("gen", "Gt", "6")], True),
        ([expects("gen", "Gt", "7")], False),
        ([expects("gen", "Lt", "8")], True),
        ([expects("gen", "Lt", "7")], False),
        ([expects("disk", "Gt", "6")], False),
        ([expects("no", "Lt", "6")], False),
        ([expects("gen", "Gt", "x")], False),
        ([expects("gen", "Gt")], False),
        ([expects("gen", "Near", "7")], False),
        ([expects("disk", "In", "ssd"), expects("gen", "Gt", "9")], False),
        ([], False),
    ],
)
def test_required_node_affinity(required, takes):
    place = node("n", labels=LABELS)
    assert evictions.would_take(place, pod(affinity=affinity(required))) is takes


def test_any_term_suffices_and_fields_count():
    place = node("n", labels=LABELS)
    no, yes = [expects("disk", "In", "hdd")], [expects("gen", "Exists")]
    assert evictions.would_take(place, pod(affinity=affinity(no, yes)))
    named = [expects("metadata.name", "In", "n")]
    assert evictions.would_take(place, pod(affinity=affinity(fields=[named])))
    other = [expects("metadata.name", "In", "m")]
    assert not evictions.would_take(place, pod(affinity=affinity(fields=[other])))


@pytest.mark.parametrize("given", [None, Affinity(), Affinity(NodeAffinity())])
def test_no_required_affinity_means_anywhere(given):
    assert evictions.would_take(node("n"), pod(affinity=given))


def test_required_affinity_without_terms_matches_no_node():
    assert not evictions.would_take(node("n"), pod(affinity=Affinity(NodeAffinity(NodeSelector()))))


@pytest.mark.parametrize(
    ("selector", "takes"),
    [
        (None, True),
        ({}, True),
        ({"disk": "ssd"}, True),
        ({"disk": "hdd"}, False),
        ({"x": ""}, False),
    ],
)
def test_the_node_selector(selector, takes):
    assert evictions.would_take(node("n", labels=LABELS), pod(node_selector=selector)) is takes


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "v"), True),
        (Toleration("k", "Equal", "w"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("k", "Exists", "", "NoExecute"), False),
        (Toleration("", "Exists"), True),
        (Toleration("j", "Exists"), False),
        (Toleration("j", "Equal", "v"), False),
        (Toleration("k", "", "v"), True),
    ],
)
def test_tolerations(toleration, tolerates):
    place = node("n", taints=[Taint("k", "v", "NoSchedule")])
    assert evictions.would_take(place, pod(tolerations=[toleration])) is tolerates


def test_every_taint_has_to_be_tolerated_but_a_preference_keeps_nobody_off():
    place = node("n", taints=[Taint("k", "v", "NoSchedule"), Taint("j", "", "NoExecute")])
    assert not evictions.would_take(place, pod(tolerations=[Toleration("k", "Exists")]))
    mild = node("n", taints=[Taint("k", "v", "PreferNoSchedule")])
    assert evictions.would_take(mild, pod())
