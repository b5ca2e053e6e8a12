"""Create, read, replace and delete objects, and the error of each rejection."""

import io
import json

import aiohttp
import pytest

NODES = "/api/v1/nodes"
NODE = "/api/v1/nodes/node-a"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def configmap(name="c", **fields):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


async def test_default_namespaces_exist(api):
    reply = await api.get("/api/v1/namespaces")
    assert [item["metadata"]["name"] for item in reply.body["items"]] == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health_is_served(server, path):
    async with aiohttp.ClientSession() as session, session.get(server.url + path) as response:
        assert (response.status, await response.text()) == (200, "ok")


async def test_new_object_gets_server_set_fields(api, node, clock):
    given = node(uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=9)
    reply = await api.post(NODES, given)
    metadata = reply.body["metadata"]
    assert reply.code == 201
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert "generation" not in metadata
    assert (await api.get(NODE)).body == reply.body


async def test_resource_versions_count_every_write(api, node):
    first = await api.post(NODES, node("a"))
    second = await api.post(CONFIGMAPS, configmap())
    assert int(second.version) == int(first.version) + 1


async def test_second_create_conflicts(api, node):
    await api.post(NODES, node())
    reply = await api.post(NODES, node())
    assert (reply.code, reply.reason) == (409, "AlreadyExists")
    assert reply.body["message"] == 'nodes "node-a" already exists'
    assert reply.body["details"] == {"name": "node-a", "kind": "nodes"}


async def test_generated_name_has_the_requested_prefix(api):
    reply = await api.post(CONFIGMAPS, {"metadata": {"generateName": "c-"}})
    again = await api.post(CONFIGMAPS, {"metadata": {"generateName": "c-"}})
    names = {reply.body["metadata"]["name"], again.body["metadata"]["name"]}
    assert len(names) == 2
    assert all(name.startswith("c-") and len(name) == 7 for name in names)


async def test_missing_object_is_not_found(api):
    reply = await api.get("/apis/apps/v1/namespaces/default/deployments/web")
    assert (reply.code, reply.reason) == (404, "NotFound")
    assert reply.body["message"] == 'deployments.apps "web" not found'
    assert reply.body["details"] == {"name": "web", "group": "apps", "kind": "deployments"}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nosuch",
        "/apis/nosuch/v1/things",
        "/api/v1/nodes/node-a/nosuch",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/pods/a/b/c",
        "/nosuch",
        "/api/v1/pods/name-without-namespace",
    ],
)
async def test_unknown_paths_are_not_found(api, path):
    reply = await api.get(path)
    assert (reply.code, reply.reason) == (404, "NotFound")
    assert reply.body["kind"] == "Status"


async def test_namespace_must_exist(api):
    reply = await api.post("/api/v1/namespaces/nosuch/configmaps", configmap())
    assert (reply.code, reply.body["message"]) == (404, 'namespaces "nosuch" not found')


async def test_unsupported_method_is_not_allowed(api, node):
    await api.post(NODES, node())
    for method, path in [("PUT", NODES), ("POST", NODE), ("PATCH", NODES)]:
        kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        reply = await api.call(method, path, {}, headers=kind)
        assert (reply.code, reply.reason) == (405, "MethodNotAllowed"), method


@pytest.mark.parametrize("raw", ["{", "", "[]", '"text"', "\x00", "[" * 100_000])
async def test_body_that_is_no_object_is_a_bad_request(api, raw):
    reply = await api.call("POST", NODES, raw=raw)
    assert (reply.code, reply.reason) == (400, "BadRequest")


async def test_other_kind_is_a_bad_request(api, pod):
    reply = await api.post(NODES, pod())
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert "cannot be handled as a Node" in reply.body["message"]


async def test_other_content_type_is_rejected(api):
    reply = await api.call("POST", NODES, raw="<xml/>", headers={"Content-Type": "text/xml"})
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


async def test_yaml_is_accepted(api):
    raw = "apiVersion: v1\nkind: Node\nmetadata:\n  name: node-a\n  annotations: {at: 2026-01-01, 5: five}\n"
    reply = await api.call("POST", NODES, raw=raw, headers={"Content-Type": "application/yaml"})
    assert reply.code == 201
    assert reply.body["metadata"]["annotations"] == {"at": "2026-01-01", "5": "five"}


async def test_duplicate_keys_in_yaml_are_rejected(api):
    raw = "apiVersion: v1\nkind: Node\nkind: Pod\nmetadata: {name: node-a}\n"
    reply = await api.call("POST", NODES, raw=raw, headers={"Content-Type": "application/yaml"})
    assert reply.code == 400
    assert "error decoding YAML: line 3, column 1: kind appears twice" in reply.body["message"]


async def test_client_that_does_not_accept_json_gets_406(api):
    reply = await api.call("GET", NODES, headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert (reply.code, reply.reason) == (406, "NotAcceptable")


async def test_body_beyond_the_limit_is_too_large(api):
    body = io.BytesIO(json.dumps(configmap(data={"a": "x" * 4 * 1024 * 1024})).encode())
    reply = await api.call("POST", CONFIGMAPS, raw=body)
    assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "Not_A_Name"}, "metadata.name"),
        ({"name": "x" * 254}, "metadata.name"),
        ({}, "metadata.name"),
        ({"name": "a", "labels": {"-k": "v"}}, "metadata.labels"),
        ({"name": "a", "labels": {"a/b/c": "v"}}, "metadata.labels"),
        ({"name": "a", "labels": {"Upper.Case/b": "v"}}, "metadata.labels"),
        ({"name": "a", "labels": {"k": "a b"}}, "metadata.labels"),
        ({"name": "a", "labels": {"k": "ü"}}, "metadata.labels"),
        ({"name": "a", "annotations": {"a b": "v"}}, "metadata.annotations"),
        ({"name": "a", "annotations": {"k": "v" * 300_000}}, "metadata.annotations"),
        ({"name": "a", "ownerReferences": [{"kind": "X"}]}, "metadata.ownerReferences[0].uid"),
        ({"name": "a", "finalizers": ["a b"]}, "metadata.finalizers"),
    ],
)
async def test_metadata_is_validated(api, metadata, field):
    reply = await api.post(CONFIGMAPS, {"metadata": metadata})
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert field in [cause["field"] for cause in reply.causes]
    assert reply.body["details"]["kind"] == "ConfigMap"


async def test_label_that_is_no_string_is_a_bad_request(api):
    reply = await api.post(CONFIGMAPS, {"metadata": {"name": "a", "labels": {"k": 5}}})
    assert (reply.code, reply.reason) == (400, "BadRequest")


async def test_stale_put_conflicts(api):
    first = await api.post(CONFIGMAPS, configmap(data={"a": "1"}))
    path = f"{CONFIGMAPS}/c"
    fresh = await api.put(path, {**first.body, "data": {"a": "2"}})
    assert fresh.code == 200
    stale = await api.put(path, {**first.body, "data": {"a": "3"}})
    assert (stale.code, stale.reason) == (409, "Conflict")
    assert "the object has been modified" in stale.body["message"]
    assert (await api.get(path)).body["data"] == {"a": "2"}


async def test_put_without_a_version_overwrites(api):
    await api.post(CONFIGMAPS, configmap(data={"a": "1"}))
    reply = await api.put(f"{CONFIGMAPS}/c", configmap(data={"b": "2"}))
    assert (reply.code, reply.body["data"]) == (200, {"b": "2"})


async def test_put_with_another_uid_conflicts(api):
    await api.post(CONFIGMAPS, configmap())
    body = configmap()
    body["metadata"]["uid"] = "other"
    reply = await api.put(f"{CONFIGMAPS}/c", body)
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: other" in reply.body["message"]


async def test_put_under_another_name_is_a_bad_request(api):
    await api.post(CONFIGMAPS, configmap())
    assert (await api.put(f"{CONFIGMAPS}/c", configmap("d"))).code == 400


async def test_identical_put_is_no_write(api):
    first = await api.post(CONFIGMAPS, configmap(data={"a": "1"}))
    again = await api.put(f"{CONFIGMAPS}/c", first.body)
    assert again.version == first.version


async def test_put_cannot_change_server_set_fields(api):
    first = await api.post(CONFIGMAPS, configmap())
    body = configmap(data={"a": "1"})
    body["metadata"] |= {"creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "x"}
    reply = await api.put(f"{CONFIGMAPS}/c", body)
    metadata = reply.body["metadata"]
    assert metadata["creationTimestamp"] == first.body["metadata"]["creationTimestamp"]
    assert "deletionTimestamp" not in metadata


@pytest.mark.parametrize("method", ["post", "put", "delete"])
async def test_dry_run_changes_nothing(api, method):
    before = await api.post(CONFIGMAPS, configmap())
    match method:
        case "post":
            reply = await api.post(CONFIGMAPS, configmap("d"), dryRun="All")
            assert (reply.code, (await api.get(f"{CONFIGMAPS}/d")).code) == (201, 404)
        case "put":
            body = configmap(data={"a": "1"})
            reply = await api.put(f"{CONFIGMAPS}/c", body, dryRun="All")
            assert reply.body["data"] == {"a": "1"}
        case _:
            assert (await api.delete(f"{CONFIGMAPS}/c", dryRun="All")).code == 200
    assert (await api.get(f"{CONFIGMAPS}/c")).body == before.body


async def test_deleted_object_is_gone(api):
    created = await api.post(CONFIGMAPS, configmap())
    reply = await api.delete(f"{CONFIGMAPS}/c")
    assert (reply.code, reply.body["status"]) == (200, "Success")
    assert reply.body["details"]["uid"] == created.body["metadata"]["uid"]
    assert (await api.get(f"{CONFIGMAPS}/c")).code == 404
    assert (await api.delete(f"{CONFIGMAPS}/c")).code == 404


@pytest.mark.parametrize("wanted", [{"uid": "other"}, {"resourceVersion": "1"}])
async def test_delete_with_a_failed_precondition_conflicts(api, wanted):
    await api.post(CONFIGMAPS, configmap())
    reply = await api.delete(f"{CONFIGMAPS}/c", {"preconditions": wanted})
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert (await api.get(f"{CONFIGMAPS}/c")).code == 200


async def test_collection_is_deleted_by_selector(api):
    for name, tier in (("a", "x"), ("b", "y"), ("c", "x")):
        body = configmap(name)
        body["metadata"]["labels"] = {"tier": tier}
        await api.post(CONFIGMAPS, body)
    await api.delete(CONFIGMAPS, labelSelector="tier=x")
    left = (await api.get(CONFIGMAPS)).body["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_finalizers_delay_a_deletion(api):
    body = configmap()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    created = await api.post(CONFIGMAPS, body)
    path = f"{CONFIGMAPS}/c"
    reply = await api.delete(path)
    assert reply.body["metadata"]["deletionTimestamp"]
    async with api.watch(CONFIGMAPS, resourceVersion=created.version) as watch:
        await api.patch(path, {"metadata": {"finalizers": None}})
        kinds = [event["type"] for event in await watch.events(2)]
    assert kinds == ["MODIFIED", "DELETED"]
    assert (await api.get(path)).code == 404


async def test_string_data_of_secrets_is_stored_encoded(api):
    path = "/api/v1/namespaces/default/secrets"
    reply = await api.post(path, {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert (reply.body["data"], reply.body["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in reply.body


async def test_status_and_spec_of_a_node_are_written_separately(api, node):
    created = node()
    created["metadata"]["labels"] = {"tier": "gold"}  # the status of a create has no owner
    created["status"] = {"capacity": {"cpu": 4}}
    reply = await api.post(NODES, created)
    assert reply.body["status"] == {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    assert "f:status" not in str(reply.body["metadata"]["managedFields"])
    both = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "8"}}}
    spec = await api.patch(NODE, both)
    assert spec.body["spec"] == {"unschedulable": True}
    assert spec.body["status"]["capacity"] == {"cpu": "4"}
    both["spec"]["unschedulable"] = False
    status = await api.patch(f"{NODE}/status", both)
    assert status.body["spec"] == {"unschedulable": True}
    assert status.body["status"]["capacity"] == {"cpu": "8"}
    entry = next(e for e in status.body["metadata"]["managedFields"] if "subresource" in e)
    assert (entry["manager"], entry["subresource"]) == ("tester", "status")


async def test_generation_counts_changes_of_the_spec_only(api, deployment):
    path = "/apis/apps/v1/namespaces/default/deployments"
    created = await api.post(path, deployment())
    assert created.body["metadata"]["generation"] == 1
    labelled = await api.patch(f"{path}/web", {"metadata": {"labels": {"a": "b"}}})
    status = await api.patch(f"{path}/web/status", {"status": {"replicas": 1}})
    scaled = await api.patch(f"{path}/web", {"spec": {"replicas": 3}})
    counts = [reply.body["metadata"]["generation"] for reply in (labelled, status, scaled)]
    assert counts == [1, 1, 2]


async def test_default_field_manager_is_the_user_agent(api):
    named = await api.call("POST", CONFIGMAPS, configmap("a"), headers={"User-Agent": "kube/1 x"})
    said = await api.post(CONFIGMAPS, configmap("b", data={"k": "v"}), fieldManager="me")
    patched = await api.patch(f"{CONFIGMAPS}/a", {"data": {"x": "y"}}, fieldManager="you")
    assert "managedFields" not in named.body["metadata"]
    assert said.body["metadata"]["managedFields"][0] == {
        "manager": "me",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2023-11-14T22:13:20Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
    }
    assert "managedFields" not in patched.body["metadata"]


async def test_resource_quotas_are_empty_and_cannot_be_created(api):
    quotas = "/api/v1/namespaces/default/resourcequotas"
    assert (await api.get(quotas)).body["items"] == []
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    reply = await api.post(quotas, {**body, "spec": {"hard": {"pods": "1"}}})
    assert (reply.code, reply.reason) == (403, "Forbidden")
    assert "quotas are not enforced in this sandbox" in reply.body["message"]
