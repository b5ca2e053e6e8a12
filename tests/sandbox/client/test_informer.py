"""An informer holds the API's objects, also across a watch outage, and reports each change once."""

import asyncio

import pytest

from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.informer import Informer, following
from sandbox.client.objects import NODES, PODS


def node(name, **labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture
def told():
    return []


@pytest.fixture
def informer(client, told):
    def tell(old, new):
        name = (new or old)["metadata"]["name"]
        told.append(
            (name, old and old["metadata"].get("labels"), new and new["metadata"].get("labels"))
        )

    return Informer(client, NODES, tell)


async def test_informer_has_existing_and_new_objects(client, informer, told, eventually):
    await client.create(NODES, node("a"))
    async with following(informer):
        assert list(informer.objects) == ["a"]
        await client.create(NODES, node("b"))
        await client.patch(NODES, "b", {"metadata": {"labels": {"x": "y"}}})
        await client.delete(NODES, "a")
        await eventually(lambda: len(told) == 4)
    assert [name for name, *_ in told] == ["a", "b", "b", "a"]
    assert told[2][2] == {"x": "y"}
    assert told[3][2] is None
    assert list(informer.objects) == ["b"]


async def test_dropped_history_is_recovered_by_a_new_list(told, eventually):
    server = ApiServer()
    async with Client(await server.start()) as client:
        informer = Informer(client, NODES, lambda old, new: told.append((old, new)))
        async with following(informer):
            await client.create(NODES, node("a"))
            await client.create(NODES, node("b"))
            await eventually(lambda: len(told) == 2)
        await client.delete(NODES, "a")
        await client.delete(NODES, "b")
        await client.create(NODES, node("b"))  # another pod of the same name
        await client.create(NODES, node("c"))
        server.expire_history()
        told.clear()
        async with following(informer):
            await eventually(lambda: "c" in informer.objects)
    await server.close()
    changes = [
        (old and old["metadata"]["name"], new and new["metadata"]["name"]) for old, new in told
    ]
    assert sorted(changes, key=str) == sorted(
        [("a", None), ("b", None), (None, "b"), (None, "c")], key=str
    )


async def test_failing_listener_is_logged(client):
    def breaks(old, new):
        raise ZeroDivisionError

    await client.create(NODES, node("a"))
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        async with following(Informer(client, NODES, breaks)):
            await asyncio.Event().wait()


async def test_errors_name_request_and_reason(client):
    with pytest.raises(ApiError, match="404 NotFound"):
        await client.get(NODES, "nobody")
    await client.create(NODES, node("a"))
    with pytest.raises(ApiError) as caught:
        await client.create(NODES, node("a"))
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")
    await ensure(client, NODES, node("a"))


async def test_namespaced_object_needs_its_namespace(client):
    with pytest.raises(ValueError, match="which namespace"):
        await client.get(PODS, "p")


async def test_long_list_is_read_whole(client):
    for number in range(7):
        await client.create(NODES, node(f"n{number}"))
    assert len((await client.list(NODES)).items) == 7


async def test_apply_leaves_fields_of_others_unchanged(client):
    await client.create(NODES, node("a", x="theirs"))
    ours = node("a", y="ours")
    await client.apply(NODES, ours, manager="us")
    with pytest.raises(ApiError, match="409"):
        await client.apply(NODES, node("a", x="ours"), manager="us")
    assert (await client.get(NODES, "a"))["metadata"]["labels"] == {"x": "theirs", "y": "ours"}
