"""Decoding of Kubernetes objects, ignoring irrelevant fields."""

import json
import math
from pathlib import Path

import msgspec
import pytest

from evaluator.core.cache.cluster import decode_node, decode_pod
from evaluator.core.model.node_labels import NodeLabels
from evaluator.core.model.pod import REQUEUED_AT
from evaluator.core.model.resources import USAGE_ANNOTATIONS

RECORDED = sorted((Path(__file__).parents[2] / "features/extender/requests").glob("*-nodes-3.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_objects_of_a_real_cluster_are_decoded(path):
    request = json.loads(path.read_bytes())
    nodes = [decode_node(json.dumps(node)) for node in request["Nodes"]["items"]]
    assert sorted(node.metadata.name for node in nodes) == ["node-1", "node-2", "node-3"]
    assert all(node.ready_status == "True" for node in nodes)
    assert all(node.node_labels.labels["kubernetes.io/hostname"] for node in nodes)
    pod = decode_pod(json.dumps(request["Pod"]))
    assert str(pod) == "default/pod-nodes-3"
    assert not pod.running  # it waits for a node: that is what was requested


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_few_fields_of_a_node_are_kept(path):
    """A cluster has thousands of nodes of 10 KB and more each."""
    for node in json.loads(path.read_bytes())["Nodes"]["items"]:
        kept = msgspec.json.encode(decode_node(json.dumps(node)))
        assert len(kept) < 1000 + len(json.dumps(node["metadata"]["labels"]))
        assert b'managedFields":null' in kept


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_allocatable_of_a_real_node_is_decoded(path):
    """CPUs in milli-CPU and memory in bytes; the request has cores and Gi."""
    for item in json.loads(path.read_bytes())["Nodes"]["items"]:
        told = item["status"]["allocatable"]
        cpu, memory, pods, gpus, _ = decode_node(json.dumps(item)).status.resource_vector
        assert cpu == int(told["cpu"]) * 1000
        assert memory == int(told["memory"].removesuffix("Gi")) * 2**30
        assert (pods, gpus) == (int(told["pods"]), 0)


def annotated(**annotations):
    return decode_node(json.dumps({"metadata": {"name": "n", "annotations": annotations}}))


def test_annotations_with_our_prefix_are_kept_within_bounds():
    many = {f"plimsoll.io/ack.{number:05}": "x" * 100_000 for number in range(1000)}
    node = annotated(**many, **{"plimsoll.io/memory": "{}", "plimsoll.io/none": None, "other": "1"})
    assert node.annotation("plimsoll.io/memory") == "{}"  # not crowded out
    assert len(node.annotation("plimsoll.io/ack.00000")) < 100_000
    assert 10 < len([*node.annotations("plimsoll.io/")]) < 50
    assert not node.annotation("plimsoll.io/none")
    assert not node.annotation("other")
    assert [*annotated(other="1").annotations("")] == []


def figure(text):
    return annotated(**{USAGE_ANNOTATIONS[0]: text}).metadata.figures[0]


@pytest.mark.parametrize(
    ("text", "value"), [("2500", 2500), ("-1.5", -1.5), ("1e3", 1000), (".5", 0.5), ("0", 0)]
)
def test_numeric_annotation_is_decoded(text, value):
    assert figure(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1Gi", "nan", "inf", "1e999", "1_0", "0x1", "٣", "many", None, 3, [], "1" * 100_000],
)
def test_non_numeric_annotation_is_unknown(text):
    assert math.isnan(figure(text))
    assert annotated(**{USAGE_ANNOTATIONS[0]: text}) == annotated(**{USAGE_ANNOTATIONS[0]: text})


def test_node_without_scorer_annotations_takes_no_extra_memory():
    assert annotated(note="x" * 10_000).metadata == annotated().metadata
    assert annotated().figures == (None, (), None)


def test_only_the_requeue_annotation_of_a_pod_is_kept():
    told = {REQUEUED_AT: "2026-01-01T00:00:00Z", "kubectl.kubernetes.io/last-applied": "x" * 10_000}
    pod = decode_pod(json.dumps({"metadata": {"name": "p", "annotations": told}}))
    assert pod.metadata.annotations == {REQUEUED_AT: "2026-01-01T00:00:00Z"}


def managed(**entry):
    by_us = {"manager": "plimsoll", "operation": "Apply", "apiVersion": "v1"}
    fields = {"f:metadata": {"f:labels": {"f:demo": {}, "f:a.b/c": {}}}}
    return {**by_us, "fieldsV1": fields, **entry}


@pytest.mark.parametrize(
    ("entries", "owned"),
    [
        (None, set()),
        ([], set()),
        ([managed()], {"demo", "a.b/c"}),
        ([managed(operation="Update")], set()),
        ([managed(manager="kubectl")], set()),
        ([managed(subresource="status")], set()),
        ([managed(fieldsV1=None)], set()),
        ([managed(fieldsV1={})], set()),
        ([managed(fieldsV1={"f:metadata": {"f:labels": {}}})], set()),
        ([managed(fieldsV1={"f:metadata": {"f:labels": {".": {}, "f:demo": {}}}})], {"demo"}),
        ([managed(fieldsV1={"f:spec": {}})], set()),
        ([managed(manager="kubectl"), managed()], {"demo", "a.b/c"}),
    ],
)
def test_owned_labels_are_those_applied_by_our_manager(entries, owned):
    node = {"metadata": {"name": "n", "uid": "u", "labels": {"x": "y"}, "managedFields": entries}}
    found = decode_node(json.dumps(node)).node_labels
    assert found == NodeLabels("u", {"x": "y"}, frozenset(owned))


def test_other_owners_of_labels_are_known_without_the_labels_of_kubernetes():
    of_kubelet = {"f:labels": {"f:kubernetes.io/os": {}, "f:beta.kubernetes.io/arch": {}}}
    theirs = {"f:labels": {"f:demo": {}, "f:kubernetes.io/os": {}}}
    entries = [
        managed(),
        managed(manager="kubelet", operation="Update", fieldsV1={"f:metadata": of_kubelet}),
        managed(manager="kops", operation="Update", fieldsV1={"f:metadata": theirs}),
    ]
    node = {"metadata": {"name": "n", "uid": "u", "labels": {}, "managedFields": entries}}
    found = decode_node(json.dumps(node))
    assert found.metadata.label_owners == (("kops", ("demo",)),)
    assert (found.node_labels.manager("demo"), found.node_labels.manager("x")) == ("kops", "")
    again = decode_node(json.dumps(node))
    assert again.metadata.label_owners is found.metadata.label_owners


@pytest.mark.parametrize(
    ("one", "other", "older"),
    [("1", "2", True), ("2", "2", False), ("10", "9", False), ("x", "2", False), ("1", "", False)],
)
def test_resource_versions_are_compared_where_possible(one, other, older):
    nodes = [
        decode_node(json.dumps({"metadata": {"name": "n", "resourceVersion": version}}))
        for version in (one, other)
    ]
    assert nodes[0].older_than(nodes[1]) is older


@pytest.mark.parametrize(
    ("pod", "running"),
    [
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}, True),
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}, True),
        ({"spec": {"nodeName": "n"}}, True),
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}}, False),
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}, False),
        ({"spec": {}, "status": {"phase": "Pending"}}, False),
        ({"status": {"phase": "Running"}}, False),
    ],
)
def test_running_needs_a_node_and_an_active_phase(pod, running):
    assert decode_pod(json.dumps({"metadata": {"name": "p"}, **pod})).running is running


def test_terminating_pod_is_not_running():
    metadata = {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    pod = decode_pod(json.dumps({"metadata": metadata, "spec": {"nodeName": "n"}}))
    assert not pod.running


def test_toleration_without_an_operator_means_equal():
    body = {"metadata": {}, "spec": {"tolerations": [{"key": "k", "tolerationSeconds": 300}]}}
    (toleration,) = decode_pod(json.dumps(body)).spec.tolerations
    assert (toleration.operator, toleration.value, toleration.effect) == ("Equal", "", "")


@pytest.mark.parametrize("subresource", ["", "status"])
def test_own_conditions_are_those_that_we_applied(subresource):
    keys = ['k:{"type":"plimsoll.io/A"}', "k:{", "k:[]", 'k:{"type":1}', ".", 'k:{"name":"x"}']
    entry = {
        "manager": "plimsoll",
        "operation": "Apply",
        "subresource": subresource,
        "fieldsV1": {"f:status": {"f:conditions": {key: {} for key in keys}}},
    }
    ready = {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {}}}}
    others = {**entry, "manager": "kubelet", "fieldsV1": ready}
    node = decode_node(json.dumps({"metadata": {"name": "a", "managedFields": [entry, others]}}))
    wanted = {"plimsoll.io/A": True} if subresource else {}
    assert node.applied_conditions("plimsoll") == wanted
    assert node.applied_conditions("plimsoll-problems") == {}


def test_condition_that_another_manager_has_written_to_is_not_ours():
    owned = {"f:status": {"f:conditions": {'k:{"type":"KernelDeadlock"}': {}}}}
    entries = [
        {"manager": name, "operation": how, "subresource": "status", "fieldsV1": owned}
        for name, how in (("plimsoll", "Apply"), ("npd", "Update"), ("plimsoll", "Update"))
    ]
    body = {
        "metadata": {"name": "a", "managedFields": entries},
        "status": {
            "conditions": [{"type": "KernelDeadlock"}, {"type": "Ready"}, {"type": "Other"}]
        },
    }
    node = decode_node(json.dumps(body))
    assert node.applied_conditions("plimsoll") == {"KernelDeadlock": False}
    assert node.own_conditions("plimsoll") == {}
    assert node.foreign_conditions("plimsoll") == {"KernelDeadlock": "npd", "Other": ""}
