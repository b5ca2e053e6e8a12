"""Server-side apply as Kubernetes guarantees it to an owner of node labels."""

import pytest

from plimsoll import rfc3339

NODE = "/api/v1/nodes/node-a"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def config(labels=None, **metadata):
    stated = {"name": "node-a", **({} if labels is None else {"labels": labels}), **metadata}
    return {"apiVersion": "v1", "kind": "Node", "metadata": stated}


def owners(reply):
    """(manager, operation) -> label keys that it owns."""
    found = {}
    for entry in reply.body["metadata"].get("managedFields", []):
        labels = entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
        keys = {key.removeprefix("f:") for key in labels if key != "."}
        found[entry["manager"], entry["operation"]] = keys
    return found


@pytest.fixture
async def uid(api, node):
    reply = await api.post("/api/v1/nodes", node(labels={"theirs": "1"}))
    return reply.body["metadata"]["uid"]


async def labels(api):
    return (await api.get(NODE)).body["metadata"].get("labels", {})


async def test_apply_to_a_missing_node_creates_it(api):
    reply = await api.apply(NODE, config({"a": "1"}))
    assert reply.code == 201
    assert await labels(api) == {"a": "1"}
    assert owners(reply) == {("plimsoll", "Apply"): {"a"}}


async def test_apply_with_a_uid_to_a_missing_node_conflicts(api):
    reply = await api.apply(NODE, config({"a": "1"}, uid="gone"))
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert (await api.get(NODE)).code == 404


async def test_apply_with_a_wrong_uid_is_invalid(api, uid):
    reply = await api.apply(NODE, config({"a": "1"}, uid="other"))
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.causes[0]["field"] == "metadata.uid"
    assert await labels(api) == {"theirs": "1"}


async def test_apply_with_the_right_uid_works(api, uid):
    reply = await api.apply(NODE, config({"a": "1"}, uid=uid))
    assert reply.code == 200
    assert await labels(api) == {"theirs": "1", "a": "1"}


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        (f"{NODE}/status", "application/apply-patch+yaml", config({"a": "1"})),
        (NODE, MERGE, {"metadata": {"labels": {"a": "1"}}}),
        (NODE, JSON_PATCH, []),
    ],
)
async def test_no_other_patch_creates_a_missing_node(api, path, kind, body):
    reply = await api.patch(path, body, kind, fieldManager="plimsoll")
    assert (reply.code, reply.reason) == (404, "NotFound")


async def test_omitted_label_is_removed(api, uid):
    await api.apply(NODE, config({"a": "1", "b": "2"}))
    await api.apply(NODE, config({"b": "2"}))
    assert await labels(api) == {"theirs": "1", "b": "2"}


@pytest.mark.parametrize("nothing", [{}, None])
async def test_apply_without_labels_removes_all_owned_ones(api, uid, nothing):
    await api.apply(NODE, config({"a": "1", "b": "2"}))
    reply = await api.apply(NODE, config(nothing))
    assert await labels(api) == {"theirs": "1"}
    assert owners(reply).get(("plimsoll", "Apply"), set()) == set()


async def test_removing_the_only_labels_keeps_the_node(api):
    created = await api.apply(NODE, config({"a": "1"}))
    reply = await api.apply(NODE, config())
    kept = reply.body["metadata"]
    assert kept["uid"] == created.body["metadata"]["uid"]
    assert "labels" not in kept
    assert kept["name"] == "node-a"


async def test_identical_apply_changes_nothing_and_sends_no_event(api, uid, clock):
    first = await api.apply(NODE, config({"a": "1"}))
    clock.now += 60
    async with api.watch("/api/v1/nodes", resourceVersion=first.version) as watch:
        again = await api.apply(NODE, config({"a": "1"}))
        await api.patch(NODE, {"metadata": {"labels": {"mark": "x"}}})
        event = await watch.next()
    assert again.code == 200
    assert again.version == first.version
    assert event["object"]["metadata"]["labels"]["mark"] == "x"


async def test_changed_value_of_the_same_owner_has_a_new_time(api, uid, clock):
    """As kube-apiserver 1.36 does it, for patches and for apply."""
    for value in "1234":
        clock.now += 60
        if value in "12":
            reply = await api.patch(NODE, {"metadata": {"labels": {"a": value}}})
        else:
            reply = await api.apply(NODE, config({"a": value}), force="true")
        times = [entry["time"] for entry in reply.body["metadata"]["managedFields"]]
        assert max(times) == rfc3339.seconds(clock.now)


async def test_different_value_of_another_owner_conflicts_and_applies_nothing(api, uid):
    reply = await api.apply(NODE, config({"theirs": "2", "ours": "1"}))
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert reply.causes == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "tester" using v1',
            "field": ".metadata.labels.theirs",
        }
    ]
    assert reply.body["message"] == (
        'Apply failed with 1 conflict: conflict with "tester" using v1: .metadata.labels.theirs'
    )
    assert await labels(api) == {"theirs": "1"}


async def test_several_conflicts_are_all_named(api, uid):
    await api.apply(NODE, config({"telemetry.aware.scheduling.p/x": "1"}), manager="other")
    wanted = {"theirs": "2", "telemetry.aware.scheduling.p/x": "2"}
    reply = await api.apply(NODE, config(wanted))
    assert {(c["message"], c["field"]) for c in reply.causes} == {
        ('conflict with "tester" using v1', ".metadata.labels.theirs"),
        ('conflict with "other"', ".metadata.labels.telemetry.aware.scheduling.p/x"),
    }
    assert reply.body["message"].startswith("Apply failed with 2 conflicts: conflicts with ")


async def test_equal_value_of_another_applier_is_shared_and_stays(api, uid):
    await api.apply(NODE, config({"a": "1"}), manager="other")
    shared = await api.apply(NODE, config({"a": "1"}))
    assert shared.code == 200
    assert owners(shared)["plimsoll", "Apply"] == owners(shared)["other", "Apply"] == {"a"}
    await api.apply(NODE, config({}))
    assert (await labels(api))["a"] == "1"


async def test_client_that_overwrites_an_applied_label_owns_it(api, uid):
    await api.apply(NODE, config({"a": "1"}))
    await api.patch(NODE, {"metadata": {"labels": {"a": "9"}}}, fieldManager="user")
    conflict = await api.apply(NODE, config({"a": "1"}))
    assert (conflict.code, conflict.causes[0]["field"]) == (409, ".metadata.labels.a")
    left_out = await api.apply(NODE, config({}))
    assert left_out.code == 200
    assert (await labels(api))["a"] == "9"


async def test_force_takes_the_field_and_a_later_omission_deletes_it(api, uid):
    forced = await api.apply(NODE, config({"theirs": "2"}), force="true")
    assert forced.code == 200
    assert (await labels(api))["theirs"] == "2"
    assert "theirs" not in owners(forced).get(("tester", "Update"), set())
    await api.apply(NODE, config({}))
    assert "theirs" not in await labels(api)


@pytest.mark.parametrize(
    ("given", "field"),
    [({"bad key!": "1"}, "bad key!"), ({"a": "x" * 64}, "x" * 64), ({"a": "-x"}, "-x")],
)
async def test_one_invalid_label_fails_the_whole_apply(api, uid, given, field):
    reply = await api.apply(NODE, config({"fine": "1", **given}))
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert field in reply.causes[0]["message"]
    assert await labels(api) == {"theirs": "1"}


async def test_value_that_is_no_string_is_a_server_error(api, uid):
    reply = await api.apply(NODE, config({"a": 5}))
    assert reply.code == 500
    assert ".metadata.labels.a: expected string" in reply.body["message"]


async def test_null_value_becomes_empty(api, uid):
    reply = await api.apply(NODE, config({"a": None}))
    assert reply.code == 200
    assert (await labels(api))["a"] == ""


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MERGE, {"metadata": {"labels": {"a": "1"}}}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/a", "value": "1"}]),
    ],
)
async def test_labels_written_by_patches_have_a_separate_owner_of_the_same_name(
    api, uid, kind, body
):
    await api.patch(NODE, body, kind, fieldManager="plimsoll")
    conflict = await api.apply(NODE, config({"a": "2"}))
    assert conflict.causes[0]["message"] == 'conflict with "plimsoll" using v1'
    shared = await api.apply(NODE, config({"a": "1"}))
    assert owners(shared)["plimsoll", "Apply"] == {"a"}
    assert owners(shared)["plimsoll", "Update"] == {"a"}
    await api.apply(NODE, config({}))
    assert (await labels(api))["a"] == "1"


async def test_applied_label_deleted_by_a_user_is_restored(api, uid):
    await api.apply(NODE, config({"a": "1"}))
    deleted = await api.patch(NODE, {"metadata": {"labels": {"a": None}}}, fieldManager="user")
    assert ("plimsoll", "Apply") not in owners(deleted)
    reply = await api.apply(NODE, config({"a": "1"}))
    assert reply.code == 200
    assert (await labels(api))["a"] == "1"


@pytest.mark.parametrize("wiped", [[], [{}]])
async def test_put_with_empty_managed_fields_clears_ownership(api, uid, wiped):
    applied = await api.apply(NODE, config({"a": "1"}))
    body = applied.body
    body["metadata"]["managedFields"] = wiped
    reply = await api.put(NODE, body)
    assert reply.code == 200
    assert owners(reply) == {}
    await api.apply(NODE, config({}))
    assert (await labels(api))["a"] == "1"


async def test_put_without_managed_fields_keeps_them(api, uid):
    applied = await api.apply(NODE, config({"a": "1"}))
    body = applied.body
    del body["metadata"]["managedFields"]
    reply = await api.put(NODE, body)
    assert owners(reply)["plimsoll", "Apply"] == {"a"}
    assert reply.version == applied.version


async def test_ownership_can_be_read_after_a_restart(api, uid):
    key = "telemetry.aware.scheduling.demo/card"
    reply = await api.apply(NODE, config({key: "1"}, uid=uid))
    entry = reply.body["metadata"]["managedFields"][0]
    assert entry["manager"] == "plimsoll"
    assert entry["operation"] == "Apply"
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {f"f:{key}": {}}}}


async def test_untracked_object_belongs_to_before_first_apply(api, uid):
    body = (await api.get(NODE)).body
    body["metadata"]["managedFields"] = [{}]
    await api.put(NODE, body)
    reply = await api.apply(NODE, config({"theirs": "2"}))
    assert reply.causes[0]["message"] == 'conflict with "before-first-apply" using v1'


async def test_apply_needs_a_field_manager(api, uid):
    kind = "application/apply-patch+yaml"
    reply = await api.patch(NODE, config({}), kind)
    assert reply.code == 400
    assert "fieldManager" in reply.body["message"]


async def test_dry_run_reports_conflicts_and_stores_nothing(api, uid):
    fine = await api.apply(NODE, config({"a": "1"}), dryRun="All")
    assert fine.body["metadata"]["labels"]["a"] == "1"
    assert (await api.apply(NODE, config({"theirs": "2"}), dryRun="All")).code == 409
    assert await labels(api) == {"theirs": "1"}


async def test_response_can_be_metadata_only(api, uid):
    kind = {
        "Content-Type": "application/apply-patch+yaml",
        "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    }
    reply = await api.call("PATCH", NODE, config({"a": "1"}), headers=kind, fieldManager="plimsoll")
    assert set(reply.body) == {"kind", "apiVersion", "metadata"}
    assert reply.body["metadata"]["labels"] == {"theirs": "1", "a": "1"}


async def test_items_of_keyed_lists_have_their_own_owners(api, deployment):
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    first = deployment()
    await api.apply(path, first, manager="one")
    second = deployment()
    second["spec"]["template"]["spec"]["containers"] = [{"name": "side", "image": "busybox"}]
    reply = await api.apply(path, second, manager="two")
    containers = reply.body["spec"]["template"]["spec"]["containers"]
    assert [item["name"] for item in containers] == ["c", "side"]

    second["spec"]["template"]["spec"]["containers"] = [
        {"name": "c", "env": [{"name": "A", "value": "1"}]}
    ]
    reply = await api.apply(path, second, manager="two")
    containers = reply.body["spec"]["template"]["spec"]["containers"]
    assert [item["name"] for item in containers] == ["c"]
    assert containers[0]["image"] == "nginx:1"
    assert containers[0]["env"] == [{"name": "A", "value": "1"}]


async def test_conflict_in_a_list_names_the_item(api, deployment):
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    await api.apply(path, deployment(), manager="one")
    other = deployment()
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    reply = await api.apply(path, other, manager="two")
    field = '.spec.template.spec.containers[name="c"].image'
    assert [cause["field"] for cause in reply.causes] == [field]
