"""Paths as kube-apiserver sends them, and the attributes that are authorized."""

import contextlib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.features.custom_metrics.api import attributes_of, metric_request
from evaluator.features.custom_metrics.formats import VERSIONS, MetricRequest
from plimsoll.http.types import RejectedRequestError, Request

ROOT = "/apis/custom.metrics.k8s.io"

segment = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)
resource = segment.filter(lambda text: text != "namespaces" and not text.endswith("."))


def path(*segments):
    return "/".join([ROOT, *(quote(one, safe="") for one in segments)])


@given(st.sampled_from(VERSIONS), resource, segment, segment)
def test_any_name_in_a_path_is_read_as_it_was_written(version, kind, name, metric):
    found = metric_request(path(version, kind, name, metric))
    assert found == MetricRequest(version, kind, name, metric)


@given(st.sampled_from(VERSIONS), segment, resource, segment, segment)
def test_any_name_in_a_namespaced_path_is_read_as_it_was_written(
    version, namespace, kind, name, metric
):
    found = metric_request(path(version, "namespaces", namespace, kind, name, metric))
    assert found == MetricRequest(version, kind, name, metric, namespace)


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=60))
def test_any_path_is_a_request_or_rejected(text):
    for whole in (text, ROOT + text, f"{ROOT}/v1beta2/{text}"):
        request = Request("GET", whole, {}, {})
        with contextlib.suppress(RejectedRequestError):
            attributes_of(request)


@pytest.mark.parametrize(
    ("below", "resource", "subresource", "namespace", "name"),
    [
        ("nodes/*/load", "nodes", "load", "", "*"),
        ("nodes/%2A/load", "nodes", "load", "", "*"),
        ("nodes/n1/plimsoll:load", "nodes", "plimsoll:load", "", "n1"),
        ("nodes./n1/load", "nodes", "load", "", "n1"),
        ("namespaces/ns/nodes/n1/load", "nodes", "load", "ns", "n1"),
        ("namespaces/ns/pods/*/load", "pods", "load", "ns", "*"),
        ("namespaces/ns/deployments.apps/web/load", "deployments.apps", "load", "ns", "web"),
        ("namespaces/ns/metrics/load", "metrics", "", "ns", "load"),
    ],
)
def test_attributes_are_those_of_kube_apiserver(below, resource, subresource, namespace, name):
    found = attributes_of(Request("GET", f"{ROOT}/v1beta2/{below}", {}, {}))
    assert (found.group, found.version, found.verb) == ("custom.metrics.k8s.io", "v1beta2", "get")
    assert (found.resource, found.subresource) == (resource, subresource)
    assert (found.namespace, found.name) == (namespace, name)


@pytest.mark.parametrize(
    "known",
    ["/apis", "/apis/", ROOT, f"{ROOT}/v1beta1", f"{ROOT}/v1beta2/", "/openapi/v2", "/openapi/v3"],
)
def test_discovery_needs_no_permission(known):
    assert attributes_of(Request("GET", known, {}, {})) is None


@pytest.mark.parametrize(
    "unknown",
    [
        "/",
        "/metrics",
        "/apis/other.io",
        f"{ROOT}x/v1beta2/nodes/*/m",
        f"{ROOT}/v1/nodes/*/m",
        f"{ROOT}/v1beta2/nodes",
        f"{ROOT}/v1beta2/nodes/n1",
        f"{ROOT}/v1beta2/nodes//m",
        f"{ROOT}/v1beta2/nodes/n1/m/more",
        f"{ROOT}/v1beta2/namespaces/ns/m",
        f"{ROOT}/v1beta2/namespaces/ns/pods/p",
        f"{ROOT}/v1beta2/namespaces/ns/pods/p/m/more",
    ],
)
def test_other_paths_are_not_found(unknown):
    with pytest.raises(RejectedRequestError) as caught:
        attributes_of(Request("GET", unknown, {}, {}))
    assert caught.value.status == 404
