"""Discovery: versions, groups, resources, OpenAPI."""

import pytest

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def test_version_is_served(api):
    body = (await api.get("/version")).body
    assert (body["major"], body["minor"]) == ("1", "32")


async def test_plain_discovery_lists_the_resources(api):
    assert (await api.get("/api")).body["versions"] == ["v1"]
    groups = {g["name"]: g["preferredVersion"] for g in (await api.get("/apis")).body["groups"]}
    assert groups["apps"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert "" not in groups
    core = {item["name"]: item for item in (await api.get("/api/v1")).body["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods"]["namespaced"]
    assert not core["nodes"]["namespaced"]
    eviction = core["pods/eviction"]
    assert (eviction["group"], eviction["kind"], eviction["verbs"]) == (
        "policy",
        "Eviction",
        ["create"],
    )
    apps = (await api.get("/apis/apps")).body
    assert (apps["kind"], apps["name"]) == ("APIGroup", "apps")
    scale = next(
        item
        for item in (await api.get("/apis/apps/v1")).body["resources"]
        if item["name"] == "deployments/scale"
    )
    assert (scale["group"], scale["kind"]) == ("autoscaling", "Scale")


async def test_aggregated_discovery_agrees_with_the_plain_one(api):
    found = set()
    for path in ("/api", "/apis"):
        reply = await api.call("GET", path, headers={"Accept": AGGREGATED})
        assert "APIGroupDiscoveryList" in reply.headers["Content-Type"]
        for group in reply.body["items"]:
            for version in group["versions"]:
                for resource in version["resources"]:
                    kind = resource["responseKind"]
                    found.add((kind["group"], kind["version"], resource["resource"]))
    plain = {("", "v1", name) for name in await resources(api, "/api/v1")}
    for group in (await api.get("/apis")).body["groups"]:
        version = group["preferredVersion"]["version"]
        names = await resources(api, f"/apis/{group['name']}/{version}")
        plain |= {(group["name"], version, name) for name in names}
    assert found == plain


def wanted(version):
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (wanted("v2beta1"), "v2beta1"),
        (f"{wanted('v2beta1')},application/json", "v2beta1"),
        (f"{wanted('v2')},{wanted('v2beta1')},application/json", "v2"),
        (f"{wanted('v2beta1')},{wanted('v2')}", "v2beta1"),
        (f"{wanted('v2')};q=0.5, {wanted('v2beta1')};q=0.9", "v2beta1"),
        (f"{wanted('v9')},{wanted('v2beta1')},application/json", "v2beta1"),
        (f"application/json;q=0.9,{wanted('v2')};q=0.8", ""),
        (f"application/json,{wanted('v2')};q=0", ""),
        (f"{wanted('v9')},application/json", ""),
        ("application/json", ""),
        ("*/*", ""),
    ],
)
@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_discovery_is_served_in_the_version_that_the_client_accepts(
    api, path, accept, version
):
    reply = await api.call("GET", path, headers={"Accept": accept})
    if version:
        assert reply.headers["Content-Type"] == wanted(version)
        assert reply.body["apiVersion"] == f"apidiscovery.k8s.io/{version}"
        assert reply.body["kind"] == "APIGroupDiscoveryList"
    else:
        assert reply.body["kind"] in {"APIVersions", "APIGroupList"}


async def resources(api, path):
    body = (await api.get(path)).body
    return [item["name"] for item in body["resources"] if "/" not in item["name"]]


@pytest.mark.parametrize("path", ["/apis/nosuch", "/apis/nosuch/v1", "/api/v2", "/openapi/v3/x"])
async def test_unserved_path_is_not_found(api, path):
    assert (await api.get(path)).code == 404


async def test_openapi_lists_a_document_per_version(api):
    paths = (await api.get("/openapi/v3")).body["paths"]
    assert {"api/v1", "apis/apps/v1"} <= set(paths)
    for entry in paths.values():
        assert (await api.get(entry["serverRelativeURL"])).code == 200


async def test_openapi_declares_server_side_validation_and_dry_run(api):
    document = (await api.get("/openapi/v3/apis/apps/v1")).body
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    patch = document["paths"][path]["patch"]
    assert {"dryRun", "fieldValidation"} <= {item["name"] for item in patch["parameters"]}
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert patch["x-kubernetes-group-version-kind"] == kind


async def test_crd_changes_discovery_and_openapi(api, crd):
    before = (await api.get("/openapi/v3")).body["paths"]
    await api.post(CRDS, crd(ANY))
    after = (await api.get("/openapi/v3")).body["paths"]
    assert set(after) - set(before) == {"apis/example.com/v1"}
    schemas = (await api.get("/openapi/v3/apis/example.com/v1")).body["components"]["schemas"]
    assert schemas["com.example.v1.Widget"]["properties"]["spec"] == ANY
