"""Discovery documents as kube-apiserver's aggregator reads them."""

import json

import pytest

from evaluator.features.custom_metrics.discovery import Discovery

GROUP = "custom.metrics.k8s.io"
NAMES = ("health_metric", "plimsoll:load")


def parsed(path, accept="", names=NAMES):
    found = Discovery(names).find(path, accept)
    return found.content_type, json.loads(found.body)


def aggregated(version):
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (aggregated("v2"), "v2"),
        (aggregated("v2beta1"), "v2beta1"),
        (f"{aggregated('v2')},{aggregated('v2beta1')},application/json", "v2"),
        (f"{aggregated('v9')}, {aggregated('v2beta1')}", "v2beta1"),
    ],
)
def test_aggregated_discovery_has_the_requested_version(accept, version):
    content_type, found = parsed("/apis", accept)
    assert content_type == aggregated(version)
    assert (found["kind"], found["apiVersion"]) == (
        "APIGroupDiscoveryList",
        f"apidiscovery.k8s.io/{version}",
    )
    (group,) = found["items"]
    assert group["metadata"]["name"] == GROUP
    assert [one["version"] for one in group["versions"]] == ["v1beta2", "v1beta1"]


def test_each_resource_has_one_scope_and_each_metric_a_kind():
    _, found = parsed("/apis", aggregated("v2"))
    for version in found["items"][0]["versions"]:
        assert version["freshness"] == "Current"
        scopes = {one["resource"]: one["scope"] for one in version["resources"]}
        assert scopes == {"nodes": "Cluster", "pods": "Namespaced"}
        for resource in version["resources"]:
            assert resource["responseKind"] is not None  # nil: client-go 0.26.0 panics
            assert [one["subresource"] for one in resource["subresources"]] == list(NAMES)
            for one in resource["subresources"]:
                assert one["verbs"] == ["get"]
                assert one["responseKind"] == {
                    "group": GROUP,
                    "version": version["version"],
                    "kind": "MetricValueList",
                }


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "application/vnd.kubernetes.protobuf, */*"]
)
def test_other_clients_get_the_list_of_groups(accept):
    content_type, found = parsed("/apis", accept)
    assert (content_type, found["kind"]) == ("application/json", "APIGroupList")
    assert found["groups"][0]["preferredVersion"]["version"] == "v1beta2"


def test_legacy_list_names_each_metric_of_nodes_and_pods():
    _, found = parsed(f"/apis/{GROUP}/v1beta1/")
    assert found["groupVersion"] == f"{GROUP}/v1beta1"
    assert {(one["name"], one["namespaced"]) for one in found["resources"]} == {
        *((f"nodes/{name}", False) for name in NAMES),
        *((f"pods/{name}", True) for name in NAMES),
    }


def test_group_lists_its_versions():
    _, found = parsed(f"/apis/{GROUP}")
    assert (found["kind"], found["name"]) == ("APIGroup", GROUP)
    assert [one["version"] for one in found["versions"]] == ["v1beta2", "v1beta1"]


def test_discovery_without_metrics_has_no_resources():
    _, found = parsed("/apis", aggregated("v2"), names=())
    assert [one["resources"] for one in found["items"][0]["versions"]] == [[], []]
    assert parsed(f"/apis/{GROUP}/v1beta2", names=())[1]["resources"] == []


def test_openapi_index_leads_to_documents():
    _, index = parsed("/openapi/v3")
    assert set(index["paths"]) == {f"apis/{GROUP}/v1beta2", f"apis/{GROUP}/v1beta1"}
    for entry in index["paths"].values():
        path, _, query = entry["serverRelativeURL"].partition("?")
        assert query.startswith("hash=")
        assert parsed(path)[1]["openapi"].startswith("3.")
    assert parsed("/openapi/v2")[1]["swagger"] == "2.0"
