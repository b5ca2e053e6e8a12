"""Which nodes are feasible for a pod, as in kube-scheduler, by node properties."""

import pytest

from evaluator.core.model.feasibility import is_feasible, pinned
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus, Taint
from evaluator.core.model.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodMeta,
    PodSpec,
    Requirement,
    Toleration,
)


def node(name="n", *, labels=None, ready="True", **spec):
    status = NodeStatus([NodeCondition("Ready", ready)] if ready else ())
    return Node(NodeMeta(name=name, labels=labels or {}), NodeSpec(**spec), status)


def pod(**spec):
    return Pod(PodMeta(name="web", namespace="ns"), PodSpec(**spec))


def expects(key, operator, *values):
    return Requirement(key, operator, list(values))


def affinity(*terms, fields=()):
    terms = [NodeSelectorTerm(match_expressions=list(term)) for term in terms]
    terms += [NodeSelectorTerm(match_fields=list(field)) for field in fields]
    return Affinity(NodeAffinity(NodeSelector(terms)))


LABELS = {"disk": "ssd", "gen": "7", "count": "1_000", "large": "9223372036854775808"}


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
        ([expects("gen", "Gt", "6", "5")], False),
        ([expects("gen", "Gt", "+06")], True),
        ([expects("gen", "Gt", "\uff16")], False),
        ([expects("count", "Gt", "1")], False),
        ([expects("large", "Gt", "1")], False),
        ([expects("gen", "Near", "7")], False),
        ([expects("disk", "In", "ssd"), expects("gen", "Gt", "9")], False),
        ([], False),
    ],
)
def test_required_node_affinity_is_checked(required, takes):
    place = node("n", labels=LABELS)
    assert is_feasible(place, pod(affinity=affinity(required))) is takes


def test_any_term_suffices_and_fields_count():
    place = node("n", labels=LABELS)
    no, yes = [expects("disk", "In", "hdd")], [expects("gen", "Exists")]
    assert is_feasible(place, pod(affinity=affinity(no, yes)))
    named = [expects("metadata.name", "In", "n")]
    assert is_feasible(place, pod(affinity=affinity(fields=[named])))
    other = [expects("metadata.name", "In", "m")]
    assert not is_feasible(place, pod(affinity=affinity(fields=[other])))


@pytest.mark.parametrize("given", [None, Affinity(), Affinity(NodeAffinity())])
def test_missing_required_affinity_matches_every_node(given):
    assert is_feasible(node("n"), pod(affinity=given))


def test_required_affinity_without_terms_matches_no_node():
    assert not is_feasible(node("n"), pod(affinity=Affinity(NodeAffinity(NodeSelector()))))


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
def test_node_selector_is_checked(selector, takes):
    assert is_feasible(node("n", labels=LABELS), pod(node_selector=selector)) is takes


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
        (Toleration("k", "Near", "v"), False),
    ],
)
def test_tolerations_are_checked(toleration, tolerates):
    place = node("n", taints=[Taint("k", "v", "NoSchedule")])
    assert is_feasible(place, pod(tolerations=[toleration])) is tolerates


def test_every_taint_needs_a_toleration_except_prefer_no_schedule():
    place = node("n", taints=[Taint("k", "v", "NoSchedule"), Taint("j", "", "NoExecute")])
    assert not is_feasible(place, pod(tolerations=[Toleration("k", "Exists")]))
    mild = node("n", taints=[Taint("k", "v", "PreferNoSchedule")])
    assert is_feasible(mild, pod())


@pytest.mark.parametrize(
    ("operator", "value", "tolerates"),
    [
        ("Gt", "4", True),
        ("Gt", "5", False),
        ("Lt", "6", True),
        ("Lt", "5", False),
        ("Gt", "-1", True),
        ("Gt", "04", False),
        ("Gt", "+4", False),
        ("Gt", "", False),
        ("Lt", "9223372036854775807", True),
        ("Lt", "9223372036854775808", False),
    ],
)
def test_tolerations_compare_canonical_integers(operator, value, tolerates):
    place = node("n", taints=[Taint("cost", "5", "NoSchedule")])
    assert is_feasible(place, pod(tolerations=[Toleration("cost", operator, value)])) is tolerates
    assert not is_feasible(place, pod(tolerations=[Toleration("k", operator, value)]))
    other = node("n", taints=[Taint("cost", "high", "NoSchedule")])
    assert not is_feasible(other, pod(tolerations=[Toleration("cost", operator, value)]))


CORDON = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("place", "tolerated"),
    [
        (node(unschedulable=True), CORDON),
        (node(unschedulable=True, taints=[Taint(CORDON, "", "NoSchedule")]), CORDON),
        (node(ready="False"), NOT_READY),
        (node(ready="False", taints=[Taint(NOT_READY, "", "NoSchedule")]), NOT_READY),
        (node(ready=None), NOT_READY),
        (node(ready="Unknown"), UNREACHABLE),
    ],
)
def test_cordoned_or_not_ready_node_is_feasible_with_a_toleration(place, tolerated):
    assert not is_feasible(place, pod())
    for key in (CORDON, NOT_READY, UNREACHABLE):
        tolerant = pod(tolerations=[Toleration(key, "Exists", "", "NoSchedule")])
        assert is_feasible(place, tolerant) is (key == tolerated)
    assert is_feasible(place, pod(tolerations=[Toleration("", "Exists")]))
    no_execute = Toleration(tolerated, "Exists", "", "NoExecute")
    assert not is_feasible(place, pod(tolerations=[no_execute]))


@pytest.mark.parametrize(
    ("required", "names"),
    [
        (affinity(fields=[[expects("metadata.name", "In", "n", "m")]]), {"n", "m"}),
        (
            affinity(
                fields=[[expects("metadata.name", "In", "n")], [expects("metadata.name", "In")]]
            ),
            {"n"},
        ),
        (
            affinity([expects("disk", "Exists")], fields=[[expects("metadata.name", "In", "n")]]),
            None,
        ),
        (affinity(fields=[[expects("metadata.name", "NotIn", "n")]]), None),
        (affinity(), set()),
        (Affinity(NodeAffinity()), None),
        (None, None),
    ],
)
def test_pinned_node_names_are_found(required, names):
    """Other nodes need no check: they are never feasible."""
    asks = pod(affinity=required)
    assert pinned(asks) == names
    others = node("other", labels=LABELS)
    assert names is None or not is_feasible(others, asks)
