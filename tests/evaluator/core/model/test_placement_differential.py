"""The evaluator and the sandbox's scheduler judge random pods and nodes alike."""

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evaluator.core.cache.cluster import decode_node, decode_pod
from evaluator.core.model.feasibility import is_feasible
from sandbox.scheduler.constraints import violation
from tests.examples import examples

KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(
    ["", "x", "0", "7", "+7", "07", "1_000", "-7", "\uff17", "9223372036854775808"]
)
TAINT_VALUES = st.sampled_from(["", "7", "07"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
NODE_TAINTS = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready")
TAINT_KEYS = st.sampled_from(["a", *NODE_TAINTS])
READY_TAINTS = {
    "True": [],
    "False": ["node.kubernetes.io/not-ready"],
    "Unknown": ["node.kubernetes.io/unreachable"],
}

requirements = st.fixed_dictionaries(
    {
        "key": KEYS,
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]),
        "values": st.lists(VALUES, max_size=2),
    }
)
fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.sampled_from([["node"], ["other"]]),
    }
)
terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(requirements, max_size=2),
        "matchFields": st.lists(fields, max_size=1),
    },
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(terms, max_size=2)}
        )
    },
)
tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": TAINT_KEYS,
        "operator": st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "Near"]),
        "value": TAINT_VALUES,
        "effect": EFFECTS,
    },
)

taints = st.fixed_dictionaries({"key": TAINT_KEYS, "value": TAINT_VALUES, "effect": EFFECTS})


@st.composite
def nodes(draw):
    """A node with the taints that the node lifecycle controller sets for its Ready condition."""
    ready = draw(st.sampled_from([*READY_TAINTS]))
    own = [{"key": key, "effect": "NoSchedule"} for key in READY_TAINTS[ready]]
    return {
        "metadata": {"name": "node", "labels": draw(st.dictionaries(KEYS, VALUES))},
        "spec": {
            "unschedulable": draw(st.booleans()),
            "taints": draw(st.lists(taints, max_size=2)) + own,
        },
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


pods = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "pod", "namespace": "ns"}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeSelector": st.dictionaries(KEYS, VALUES, max_size=1),
                "affinity": st.fixed_dictionaries({}, optional={"nodeAffinity": affinities}),
                "tolerations": st.lists(tolerations, max_size=3),
            },
        ),
    }
)


def takes(node, pod):
    """The evaluator's verdict on a pod and a node, decoded from API objects."""
    return is_feasible(decode_node(msgspec.json.encode(node)), decode_pod(msgspec.json.encode(pod)))


@given(nodes(), pods)
@settings(max_examples=examples(125))
def test_random_pods_and_nodes_agree_with_the_reference(node, pod):
    expected = violation(pod, node) is None
    event("taken" if expected else "refused")
    assert takes(node, pod) is expected


@given(taints, tolerations)
@settings(max_examples=examples(125))
def test_one_taint_and_one_toleration_agree_with_the_reference(taint, toleration):
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    place = {"metadata": {"name": "node"}, "spec": {"taints": [taint]}, "status": ready}
    pod = {"metadata": {"name": "pod"}, "spec": {"tolerations": [toleration]}}
    assert takes(place, pod) is (violation(pod, place) is None)


@given(VALUES, VALUES, st.sampled_from(["Gt", "Lt"]))
def test_numbers_in_affinity_and_tolerations_agree_with_the_reference(have, bound, operator):
    requirement = {"key": "a", "operator": operator, "values": [bound]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    place = {"metadata": {"name": "node", "labels": {"a": have}}, "spec": {}, "status": ready}
    pod = {"metadata": {"name": "pod"}, "spec": {"affinity": affinity}}
    assert takes(place, pod) is (violation(pod, place) is None)
    taint = {"key": "a", "value": have, "effect": "NoSchedule"}
    tainted = {**place, "spec": {"taints": [taint]}}
    toleration = {"key": "a", "operator": operator, "value": bound}
    pod = {"metadata": {"name": "pod"}, "spec": {"tolerations": [toleration]}}
    assert takes(tainted, pod) is (violation(pod, tainted) is None)
