"""Selectors, affinity and taints: feasible nodes, and the reasons for others."""

import pytest

from sandbox.scheduler.constraints import violation

MISMATCH = "node(s) didn't match Pod's node affinity/selector"


def required(*terms):
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": rule}


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_plain_pod_fits_any_node(pod, node):
    assert violation(pod(), node()) is None


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ({"disk": "ssd"}, None),
        ({"disk": "hdd"}, MISMATCH),
        ({"disk": "ssd", "gpu": "yes"}, MISMATCH),
    ],
)
def test_node_selector_is_checked(pod, node, selector, reason):
    assert violation(pod(nodeSelector=selector), node(labels={"disk": "ssd"})) == reason


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "c"), False),
        (expression("nothing", "In", "a"), False),
        (expression("zone", "NotIn", "c"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("demo-policy", "NotIn", "violating"), True),  # a node without the label
        (expression("zone", "Exists"), True),
        (expression("nothing", "Exists"), False),
        (expression("nothing", "DoesNotExist"), True),
        (expression("zone", "DoesNotExist"), False),
        (expression("cores", "Gt", "15"), True),
        (expression("cores", "Gt", "16"), False),
        (expression("cores", "Lt", "17"), True),
        (expression("cores", "Lt", "16"), False),
        (expression("zone", "Gt", "1"), False),
        (expression("cores", "Gt"), False),
        (expression("count", "Gt", "1"), False),
        (expression("cores", "Gt", "\uff11"), False),
        (expression("cores", "Gt", "+015"), True),
        (expression("cores", "Around", "16"), False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}, True),
        (
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-b"]}]},
            False,
        ),
        ({}, False),
    ],
)
def test_required_affinity_is_checked(pod, node, term, matches):
    target = node(labels={"zone": "a", "cores": "16", "count": "1_000"})
    assert violation(pod(affinity=required(term)), target) == (None if matches else MISMATCH)


def test_one_of_several_terms_with_all_its_parts_suffices(pod, node):
    both = {
        "matchExpressions": [
            {"key": "zone", "operator": "Exists"},
            {"key": "x", "operator": "Exists"},
        ]
    }
    assert violation(pod(affinity=required(both)), node(labels={"zone": "a"})) == MISMATCH
    either = required(both, expression("zone", "In", "a"))
    assert violation(pod(affinity=either), node(labels={"zone": "a"})) is None
    assert violation(pod(affinity=required()), node()) == MISMATCH


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Equal", "value": "v"}, True),
        ({"key": "k", "value": "other"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Equal", "value": "v"}, False),
        ({"key": "k", "operator": "Near", "value": "v"}, False),
        ({"key": "k", "operator": "Gt", "value": "4"}, False),
    ],
)
def test_taints_are_checked(pod, node, toleration, tolerated):
    tainted = node(spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})
    tolerations = [toleration] if toleration else []
    expected = None if tolerated else "node(s) had untolerated taint {k: v}"
    assert violation(pod(tolerations=tolerations), tainted) == expected


@pytest.mark.parametrize(
    ("operator", "value", "tolerated"),
    [("Gt", "4", True), ("Gt", "5", False), ("Lt", "6", True), ("Lt", "06", False)],
)
def test_tolerations_compare_canonical_integers(pod, node, operator, value, tolerated):
    tainted = node(spec={"taints": [{"key": "cost", "value": "5", "effect": "NoSchedule"}]})
    tolerant = pod(tolerations=[{"key": "cost", "operator": operator, "value": value}])
    assert (violation(tolerant, tainted) is None) is tolerated


def test_prefer_no_schedule_rejects_no_pod(pod, node):
    assert (
        violation(pod(), node(spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}))
        is None
    )


def test_cordoned_node_accepts_only_pods_that_tolerate_it(pod, node):
    cordoned = node(spec={"unschedulable": True})
    assert violation(pod(), cordoned) == "node(s) were unschedulable"
    daemon = pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert violation(daemon, cordoned) is None
