"""Gang fields of a pod: labels as in the original plugin, gates, and the admission annotation."""

import json
from typing import Any

import pytest

from evaluator.core.model.names import UNREADABLE, PolicyKey
from evaluator.core.model.pod_spec_view import decode
from evaluator.features.gangs.core.labels import membership
from evaluator.features.gangs.core.membership import ADMITTED, GATE, Membership, Owner, QoS

GANG = {"podGroup": "train", "minAvailable": "4"}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-job"}


def read(labels: Any = None, *, gates: Any = None, **more: Any) -> Membership | None:
    """The membership of a pod with these labels and gates; `meta`, `spec` and `status` are merged in."""
    meta = {"name": "web", "namespace": "shop", "labels": labels, **more.get("meta", {})}
    held = [{"name": gate} for gate in gates] if gates is not None else None
    spec = {"schedulingGates": held, **more.get("spec", {})}
    body = {"metadata": meta, "spec": spec, "status": more.get("status", {})}
    return membership(decode(json.dumps(body).encode()))


def told(labels: Any = None, **more: Any) -> Membership:
    found = read(labels, **more)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("labels", "group", "minimum", "priority"),
    [
        (GANG, "train", 4, 0),
        (GANG | {"groupPriority": "7"}, "train", 4, 7),
        (GANG | {"groupPriority": "high"}, "train", 4, 0),
        (GANG | {"minAvailable": "2"}, "train", 2, 0),
        (GANG | {"minAvailable": "1"}, "", 0, 0),
        (GANG | {"minAvailable": "0"}, "", 0, 0),
        (GANG | {"minAvailable": "four"}, "", 0, 0),
        (GANG | {"podGroup": ""}, "", 0, 0),
        ({"podGroup": "train"}, "", 0, 0),
        ({"minAvailable": "4", "groupPriority": "7"}, "", 0, 7),
        ({}, "", 0, 0),
        (None, "", 0, 0),
    ],
)
def test_gang_labels_are_decoded(labels: Any, group: str, minimum: int, priority: int) -> None:
    found = told(labels, gates=[GATE])
    assert (found.group, found.minimum, found.priority) == (group, minimum, priority)
    found = read(labels)
    assert (found is None) == (not (labels or {}).get("podGroup"))
    assert found is None or bool(found.beside) is not bool(minimum)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (GANG | {"minAvailable": "four"}, "minAvailable is 'four', which is not a number: no gang"),
        (GANG | {"groupPriority": "high"}, "groupPriority is 'high', which is not a number"),
        ({"podGroup": "train"}, "podGroup and no minAvailable: it waits for no others"),
        ({"minAvailable": "4"}, "minAvailable and no podGroup: no gang"),
        (GANG | {"podGroup": ""}, "minAvailable and no podGroup: no gang"),
    ],
)
def test_invalid_labels_are_reported(labels: Any, words: str) -> None:
    (problem,) = told(labels, gates=[GATE]).problems
    assert words in problem


NEWER = "scheduling.x-k8s.io/pod-group"
OLDER = "pod-group.scheduling.sigs.k8s.io"
OLDER_MINIMUM = f"{OLDER}/min-available"


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        ({f"{OLDER}/name": "tf", OLDER_MINIMUM: "3"}, f"{OLDER}/name"),
        ({OLDER: "tf", OLDER_MINIMUM: "3"}, OLDER),
        ({NEWER: "tf", "minAvailable": "3"}, NEWER),
        ({NEWER: "tf", OLDER_MINIMUM: "3"}, NEWER),
        ({"podGroup": "", NEWER: "tf", "minAvailable": "3"}, NEWER),
        ({"podGroup": "tf", NEWER: "tf", "minAvailable": "3", OLDER_MINIMUM: "3"}, "podGroup"),
    ],
)
@pytest.mark.parametrize("gates", [None, [GATE]])
def test_other_spellings_of_scheduler_plugins_are_gangs(
    labels: Any, label: str, gates: Any
) -> None:
    found = told(labels, gates=gates)
    assert (found.group, found.minimum, found.group_label) == ("tf", 3, label)
    assert found.problems == ()


@pytest.mark.parametrize("label", [NEWER, OLDER])
def test_group_whose_minimum_is_in_a_podgroup_is_reported(label: str) -> None:
    found = told({label: "pg1"}, gates=[GATE])
    assert (found.group, found.minimum, found.beside) == ("", 0, "pg1")
    (problem,) = found.problems
    assert f"{label} and no minAvailable (PodGroup objects are not read)" in problem


def test_spellings_that_differ_are_reported() -> None:
    found = told(GANG | {NEWER: "x", OLDER_MINIMUM: "9"}, gates=[GATE])
    assert (found.group, found.minimum) == ("train", 4)
    assert found.problems == (
        f"its labels podGroup and {NEWER} differ: the first counts",
        f"its labels minAvailable and {OLDER_MINIMUM} differ: the first counts",
    )


@pytest.mark.parametrize("labels", [GANG, GANG | {"minAvailable": "1"}, {}, None])
def test_valid_labels_are_not_reported(labels: Any) -> None:
    assert told(labels, gates=[GATE]).problems == ()


def test_own_and_foreign_gates_are_distinguished() -> None:
    found = told(GANG, gates=["example.com/quota", GATE, "example.com/data"])
    assert (found.gated, found.foreign) == (True, ("example.com/quota", "example.com/data"))
    found = told(GANG, gates=["example.com/quota"])
    assert (found.gated, found.foreign, found.held) == (False, ("example.com/quota",), True)
    assert not told(GANG).held
    assert read(gates=["example.com/quota"]) is None


def test_admission_annotation_is_decoded_without_a_gang_too() -> None:
    meta = {"annotations": {ADMITTED: "2027-01-15T08:00:00.250Z", "other": "x" * 99}}
    assert told(GANG, meta=meta).admitted == told(meta=meta).admitted == 1_800_000_000.25
    assert told(GANG, meta=meta, gates=[GATE]).admitted is None, "an annotation from a template"
    assert told(GANG).admitted is None


@pytest.mark.parametrize("mark", ["", "yesterday", "2027-01-15T08:00:00"])
def test_admission_annotation_that_is_no_time_is_ignored_and_reported(mark: str) -> None:
    meta = {"annotations": {ADMITTED: mark}}
    found = told(GANG, meta=meta)
    assert found.admitted is None
    (problem,) = found.problems
    assert ADMITTED in problem
    assert read(meta=meta) is None


def test_owner_is_the_controlling_reference() -> None:
    others = [{"kind": "Cluster", "name": "c", "uid": "1"}]
    owners = {"ownerReferences": [*others, JOB | {"controller": True}]}
    assert told(GANG, meta=owners).owner == Owner("Job", "train", "u-job", "batch/v1")
    assert told(GANG, meta={"ownerReferences": others}).owner == Owner()
    assert told(GANG).owner == Owner()


@pytest.mark.parametrize("field", ["schedulingGroup", "workloadRef"])
def test_native_pod_group_is_detected(field: str) -> None:
    assert told(GANG, spec={field: {"podGroupName": "x"}}).native
    assert not told(GANG).native


def test_policy_is_of_the_pods_namespace() -> None:
    assert told(GANG | {"telemetry-policy": "cool"}).policy == PolicyKey("shop", "cool")
    assert told(GANG).policy is None


def test_pods_with_equal_constraints_share_one_object() -> None:
    def where(**spec: Any) -> Any:
        return told(GANG, spec=spec).where

    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}
    asks = {"nodeSelector": {"disk": "ssd"}}
    assert where(**asks) is where(**asks)
    assert where(**asks) is not where(nodeSelector={"disk": "hdd"})
    assert where(tolerations=[{"key": "a", "operator": "Exists"}]).constraints
    assert where(affinity=None, tolerations=[]).constraints != where(**asks).constraints
    assert where().constraints == b""
    assert where(**asks, affinity=preferred).constraints != b""


def test_large_constraints_are_decoded_and_not_cached() -> None:
    asks = {"nodeSelector": {f"label-{number}": "x" * 60 for number in range(100)}}
    one, other = told(GANG, spec=asks).where, told(GANG, spec=asks).where
    assert one == other
    assert one is not other


@pytest.mark.parametrize("field", ["nodeSelector", "affinity", "tolerations"])
def test_unreadable_constraints_are_an_error_of_the_pod(field: str) -> None:
    with pytest.raises(UNREADABLE):
        read(GANG, spec={field: 7})
    assert read(spec={field: 7}) is None, "pods without gang labels have no membership"


def container(requests: Any = None, limits: Any = None) -> Any:
    return {"resources": {"requests": requests or {}, "limits": limits or {}}}


WHOLE = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{}]}, QoS.BEST_EFFORT),
        ({"containers": [container({"cpu": "0"})]}, QoS.BEST_EFFORT),
        ({"containers": [container({"nvidia.com/gpu": "1"})]}, QoS.BEST_EFFORT),
        ({"containers": [container(WHOLE, WHOLE)]}, QoS.GUARANTEED),
        (
            {"containers": [container(WHOLE, {"cpu": "1000m", "memory": "1024Mi"})]},
            QoS.GUARANTEED,
        ),
        ({"containers": [container(WHOLE, {"cpu": "2", "memory": "1Gi"})]}, QoS.BURSTABLE),
        ({"containers": [container({"cpu": "1"}, {"cpu": "1"})]}, QoS.BURSTABLE),
        ({"containers": [container(WHOLE, WHOLE), container()]}, QoS.BURSTABLE),
        (
            {"containers": [container(WHOLE, WHOLE)], "initContainers": [container()]},
            QoS.BURSTABLE,
        ),
        ({"containers": [container({"cpu": "1"})]}, QoS.BURSTABLE),
        ({"containers": [container({}, {"cpu": "1"})]}, QoS.BURSTABLE),
        (
            {"containers": [container()], "resources": {"requests": WHOLE, "limits": WHOLE}},
            QoS.GUARANTEED,
        ),
        (
            {"containers": [container(WHOLE, WHOLE)], "resources": {"requests": WHOLE}},
            QoS.BURSTABLE,
        ),
    ],
)
def test_qos_class_is_computed_as_by_kubernetes_if_missing(spec: Any, expected: QoS) -> None:
    assert told(GANG, spec=spec).qos is expected
    assert told(GANG, spec=spec, status={"qosClass": "Novel"}).qos is expected


@pytest.mark.parametrize(
    ("name", "qos"),
    [
        ("Guaranteed", QoS.GUARANTEED),
        ("Burstable", QoS.BURSTABLE),
        ("BestEffort", QoS.BEST_EFFORT),
    ],
)
def test_qos_class_of_the_status_counts(name: str, qos: QoS) -> None:
    spec = {"containers": [container({"cpu": "1"})]}
    assert told(GANG, spec=spec, status={"qosClass": name}).qos is qos
