"""PATCH over HTTP: its formats, and the rules of all formats."""

import pytest

NODES = "/api/v1/nodes"
NODE = "/api/v1/nodes/node-a"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
async def created(api, node):
    return await api.post(NODES, node(labels={"a": "1"}))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MERGE, {"metadata": {"labels": {"b": "2"}}}),
        (STRATEGIC, {"metadata": {"labels": {"b": "2"}}}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/b", "value": "2"}]),
    ],
)
async def test_every_format_changes_the_object(api, created, kind, body):
    reply = await api.patch(NODE, body, kind)
    assert (reply.code, reply.body["metadata"]["labels"]) == (200, {"a": "1", "b": "2"})
    assert int(reply.version) > int(created.version)


async def test_unsupported_format_is_rejected_with_the_supported_ones(api, created):
    reply = await api.patch(NODE, {}, "application/json")
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")
    assert JSON_PATCH in reply.body["message"]


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, JSON_PATCH])
async def test_unparsable_body_is_a_bad_request(api, created, kind):
    reply = await api.call("PATCH", NODE, raw="{", headers={"Content-Type": kind})
    assert (reply.code, reply.reason) == (400, "BadRequest")


async def test_stale_version_in_a_patch_conflicts(api, created):
    version = {"metadata": {"resourceVersion": created.version, "labels": {"b": "2"}}}
    assert (await api.patch(NODE, version)).code == 200
    version["metadata"]["labels"] = {"b": "3"}
    reply = await api.patch(NODE, version)
    assert (reply.code, reply.reason) == (409, "Conflict")


async def test_patch_cannot_rename(api, created):
    reply = await api.patch(NODE, {"metadata": {"name": "other"}})
    assert (reply.code, reply.causes[0]["field"]) == (422, "metadata.name")


async def test_patch_with_another_uid_is_invalid(api, created):
    reply = await api.patch(NODE, {"metadata": {"uid": "other"}})
    assert (reply.code, reply.causes[0]["field"]) == (422, "metadata.uid")


async def test_patch_without_a_change_is_no_write(api, created):
    reply = await api.patch(NODE, {"metadata": {"labels": {"a": "1"}}})
    assert reply.version == created.version


async def test_failed_test_operation_applies_nothing(api, created):
    operations = [
        {"op": "add", "path": "/metadata/labels/b", "value": "2"},
        {"op": "test", "path": "/metadata/labels/a", "value": "9"},
    ]
    reply = await api.patch(NODE, operations, JSON_PATCH)
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert (await api.get(NODE)).version == created.version


async def test_label_that_is_no_string_is_a_bad_request(api, created):
    assert (await api.patch(NODE, {"metadata": {"labels": {"a": 1}}})).code == 400


async def test_scale_subresource_can_be_patched(api, deployment):
    path = "/apis/apps/v1/namespaces/default/deployments"
    await api.post(path, deployment())
    scale = (await api.get(f"{path}/web/scale")).body
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == (
        "Scale",
        {"replicas": 1},
        "app=web",
    )
    patched = await api.patch(f"{path}/web/scale", {"spec": {"replicas": 4}})
    assert patched.body["spec"]["replicas"] == 4
    scale["spec"]["replicas"] = 2
    stale = await api.put(f"{path}/web/scale", scale)
    assert (stale.code, stale.reason) == (409, "Conflict")
    scale["metadata"].pop("resourceVersion")
    assert (await api.put(f"{path}/web/scale", scale)).code == 200
    assert (await api.get(f"{path}/web")).body["spec"]["replicas"] == 2
    for wrong in ("many", True, -1):
        assert (await api.patch(f"{path}/web/scale", {"spec": {"replicas": wrong}})).code in (
            400,
            422,
        )


async def test_selector_that_does_not_match_the_template_is_invalid(api, deployment):
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = deployment(selector={"matchLabels": {"app": "other"}})
    reply = await api.post(path, body)
    assert (reply.code, reply.causes[0]["field"]) == (422, "spec.template.metadata.labels")
    await api.post(path, deployment())
    change = {"spec": {"selector": {"matchLabels": {"app": "web", "tier": "x"}}}}
    change["spec"]["template"] = {"metadata": {"labels": {"tier": "x"}}}
    reply = await api.patch(f"{path}/web", change)
    assert (reply.code, reply.causes[0]["field"]) == (422, "spec.selector")
