"""Server-side apply of node labels: the API server behaviour on which the label controller is built."""

import pytest

from sandbox.client.client import APPLY, JSON_PATCH, ApiError
from sandbox.client.objects import NODES
from sandbox.controllers.nodes import node_object

OURS = "plimsoll"


class Node:
    """One node, and label writes by different clients."""

    def __init__(self, world, name):
        self._world = world
        self.name = name
        self.uid = ""

    async def made(self):
        found = await self._world.client.get(NODES, self.name)
        self.uid = found["metadata"]["uid"]
        return self

    async def apply(self, labels, *, uid=None, manager=OURS, name=None, force=False):
        meta = {"name": name or self.name, "labels": labels}
        meta |= {"uid": self.uid if uid is None else uid} if uid != "" else {}
        return await self._world.client.request(
            "PATCH",
            NODES.path("", meta["name"]),
            body={"apiVersion": "v1", "kind": "Node", "metadata": meta},
            params={"fieldManager": manager} | ({"force": "true"} if force else {}),
            content_type=APPLY,
        )

    async def merge(self, labels):
        return await self._world.client.patch(NODES, self.name, {"metadata": {"labels": labels}})

    async def labels(self):
        return {
            key: value
            for key, value in (await self._world.client.get(NODES, self.name))["metadata"][
                "labels"
            ].items()
            if key.startswith("t-")
        }


@pytest.fixture
async def node(world):
    return await Node(world, await world.add_node("a")).made()


async def refusal(call):
    with pytest.raises(ApiError) as refused:
        await call
    return refused.value.status


async def test_omitted_label_is_removed_and_nothing_else(node):
    await node.merge({"t-user": "1"})
    await node.apply({"t-a": "1", "t-b": "1"})
    await node.apply({"t-b": "2"})
    assert await node.labels() == {"t-user": "1", "t-b": "2"}
    await node.apply({})
    assert await node.labels() == {"t-user": "1"}


async def test_identical_apply_is_no_write(node):
    first = await node.apply({"t-a": "1"})
    again = await node.apply({"t-a": "1"})
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_apply_with_a_uid_does_not_recreate_a_deleted_node(node, world):
    gone = world.name("gone")
    assert await refusal(node.apply({"t-a": "1"}, name=gone)) == 409
    assert await refusal(world.client.get(NODES, gone)) == 404


async def test_node_of_the_same_name_and_another_uid_is_rejected(node):
    other = "00000000-0000-0000-0000-000000000000"
    assert await refusal(node.apply({"t-a": "1"}, uid=other)) == 422


async def test_conflicting_value_is_a_conflict_and_nothing_is_written(node):
    await node.merge({"t-a": "theirs"})
    with pytest.raises(ApiError) as refused:
        await node.apply({"t-a": "ours", "t-b": "1"})
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert ".metadata.labels.t-a" in refused.value.message
    assert await node.labels() == {"t-a": "theirs"}


async def test_equal_value_is_shared_and_stays_when_one_manager_drops_it(node):
    await node.merge({"t-a": "1"})
    await node.apply({"t-a": "1"})
    await node.apply({})
    assert await node.labels() == {"t-a": "1"}


async def test_overwriting_client_owns_the_label(node):
    await node.apply({"t-a": "1"})
    await node.merge({"t-a": "2"})
    assert await refusal(node.apply({"t-a": "1"})) == 409
    await node.apply({})
    assert await node.labels() == {"t-a": "2"}


async def test_force_takes_ownership(node):
    await node.merge({"t-a": "theirs"})
    await node.apply({"t-a": "ours"}, force=True)
    await node.apply({})
    assert await node.labels() == {}


async def test_deleted_label_is_restored_by_the_next_apply(node):
    await node.apply({"t-a": "1"})
    await node.merge({"t-a": None})
    assert await node.labels() == {}
    await node.apply({"t-a": "1"})
    assert await node.labels() == {"t-a": "1"}


@pytest.mark.parametrize(
    "labels", [{"t-a": "no spaces"}, {"t-a": "x" * 64}, {"t-": "1"}, {"a/b/t-": "1"}]
)
async def test_one_invalid_label_rejects_the_whole_apply(node, labels):
    assert await refusal(node.apply({"t-good": "1", **labels})) == 422
    assert await node.labels() == {}


async def test_owned_labels_are_in_the_managed_fields(node, world):
    await node.apply({"t-a": "1"})
    found = await world.client.get(NODES, node.name)
    (entry,) = [one for one in found["metadata"]["managedFields"] if one["manager"] == OURS]
    assert (entry["operation"], entry.get("subresource", "")) == ("Apply", "")
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {"f:t-a": {}}}}


async def test_two_managers_drop_a_label_one_after_the_other(node):
    await node.apply({"t-a": "1"})
    await node.apply({"t-a": "1"}, manager="other")
    await node.apply({})
    assert await node.labels() == {"t-a": "1"}
    await node.apply({}, manager="other")
    assert await node.labels() == {}


async def test_json_patch_without_a_change_owns_nothing(node, world):
    await node.apply({"t-a": "1"})
    patch = ({"op": "replace", "path": "/metadata/labels/t-a", "value": "1"},)
    await world.client.patch(NODES, node.name, patch, content_type=JSON_PATCH)
    await node.apply({})
    assert await node.labels() == {}


@pytest.mark.parametrize("without", [{}, {"status": {"conditions": []}}], ids=["none", "empty"])
async def test_apply_without_the_last_condition_removes_fields_without_an_owner(world, without):
    """Nothing owns the status that a node was created with, as a kubelet creates it."""
    name = world.name("a")
    body = node_object(name, 0, now=1e9)
    body["spec"] = {}
    body["metadata"]["labels"] |= {world.marks: world.suffix}
    await world.client.create(NODES, body)

    async def apply(given):
        return await world.client.request(
            "PATCH",
            f"{NODES.path('', name)}/status",
            body={"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **given},
            params={"fieldManager": OURS},
            content_type=APPLY,
        )

    condition = {"type": "plimsoll.io/Demo", "status": "True"}
    found = (await apply({"status": {"conditions": [condition]}}))["status"]
    assert {"Ready", "plimsoll.io/Demo"} <= {one["type"] for one in found["conditions"]}
    assert found["capacity"]
    found = (await apply(without))["status"]
    assert "plimsoll.io/Demo" not in str(found)
    assert "Ready" not in str(found.get("conditions"))
