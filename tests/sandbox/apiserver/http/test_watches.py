"""Watches: replay, live changes, selections, bookmarks, and dropped history."""

import asyncio

import aiohttp
import pytest

from sandbox.apiserver.server import ApiServer
from tests.patience import PATIENCE

NODES = "/api/v1/nodes"


def told(event):
    return event["type"], event["object"]["metadata"]["name"]


async def test_watch_without_a_version_begins_with_existing_objects(api, node):
    await api.post(NODES, node("b"))
    await api.post(NODES, node("a"))
    async with api.watch(NODES) as watch:
        assert [told(event) for event in await watch.events(2)] == [("ADDED", "a"), ("ADDED", "b")]
        await api.delete(f"{NODES}/a")
        assert told(await watch.next()) == ("DELETED", "a")


async def test_watch_from_a_version_replays_and_continues(api, node):
    first = await api.post(NODES, node("a"))
    await api.patch(f"{NODES}/a", {"metadata": {"labels": {"k": "v"}}})
    await api.delete(f"{NODES}/a")
    async with api.watch(NODES, resourceVersion=first.version) as watch:
        seen = await watch.events(2)
        await api.post(NODES, node("b"))
        seen.append(await watch.next())
    assert [told(event) for event in seen] == [("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == [int(first.version) + step for step in (1, 2, 3)]
    assert seen[1]["object"]["metadata"]["labels"] == {"k": "v"}


async def test_every_watcher_sees_every_change_once(api, node):
    start = (await api.get(NODES)).version
    async with (
        api.watch(NODES, resourceVersion=start) as one,
        api.watch(NODES, resourceVersion=start) as two,
    ):
        for index in range(20):
            await api.post(NODES, node(f"n{index:02}"))
        expected = [("ADDED", f"n{index:02}") for index in range(20)]
        assert [told(event) for event in await one.events(20)] == expected
        assert [told(event) for event in await two.events(20)] == expected


async def test_objects_enter_and_leave_a_selection(api, node):
    start = (await api.get(NODES)).version
    async with api.watch(NODES, resourceVersion=start, labelSelector="k=v") as watch:
        await api.post(NODES, node("a"))
        await api.patch(f"{NODES}/a", {"metadata": {"labels": {"k": "v"}}})
        await api.patch(f"{NODES}/a", {"metadata": {"labels": {"more": "x"}}})
        left = await api.patch(f"{NODES}/a", {"metadata": {"labels": {"k": "w"}}})
        await api.delete(f"{NODES}/a")
        await api.post(NODES, node("b", labels={"k": "v"}))
        seen = await watch.events(4)
    assert [told(event) for event in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
    ]
    # The deleted object has its last state, with the version of the deletion.
    assert seen[2]["object"]["metadata"]["labels"]["k"] == "v"
    assert seen[2]["object"]["metadata"]["resourceVersion"] == left.version


async def test_field_selectors_filter_a_watch(api, pod):
    path = "/api/v1/namespaces/default/pods"
    start = (await api.get(path)).version
    query = {"resourceVersion": start, "fieldSelector": "spec.nodeName=n"}
    async with api.watch(path, **query) as watch:
        for name in ("a", "b"):
            await api.post(path, pod(name))
        binding = {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}}
        await api.post(f"{path}/b/binding", binding)
        assert told(await watch.next()) == ("ADDED", "b")


async def test_watch_of_one_namespace_or_one_object(api):
    def body(name):
        return {"metadata": {"name": name}}

    start = (await api.get("/api/v1/configmaps")).version
    path = "/api/v1/namespaces/kube-system/configmaps"
    async with (
        api.watch(path, resourceVersion=start) as spaced,
        api.watch(f"{path}/b", resourceVersion=start) as single,
    ):
        await api.post("/api/v1/namespaces/default/configmaps", body("x"))
        await api.post(path, body("a"))
        await api.post(path, body("b"))
        assert [told(event) for event in await spaced.events(2)] == [("ADDED", "a"), ("ADDED", "b")]
        assert told(await single.next()) == ("ADDED", "b")


async def test_version_that_is_too_old_is_gone(api, server, node):
    start = (await api.get(NODES)).version
    await api.post(NODES, node())
    server.expire_history()
    reply = await api.get(NODES, watch="true", resourceVersion=start)
    assert (reply.code, reply.reason) == (410, "Expired")
    fresh = (await api.get(NODES)).version
    async with api.watch(NODES, resourceVersion=fresh) as watch:
        await api.delete(f"{NODES}/node-a")
        assert told(await watch.next()) == ("DELETED", "node-a")


async def test_history_is_bounded(api, server, node):
    start = (await api.get(NODES)).version
    await api.post(NODES, node())
    for index in range(1000):
        await api.patch(f"{NODES}/node-a", {"metadata": {"labels": {"i": str(index)}}})
    assert (await api.get(NODES, watch="true", resourceVersion=start)).code == 410


async def test_open_watch_gets_an_error_when_history_is_dropped(api, server):
    start = (await api.get(NODES)).version
    async with api.watch(NODES, resourceVersion=start) as watch:
        server.expire_history()
        event = await watch.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert event["object"]["reason"] == "Expired"
        assert await watch.next() is None


async def test_bookmarks_on_request_have_the_latest_version(api, server):
    start = (await api.get(NODES)).version
    query = {"resourceVersion": start, "allowWatchBookmarks": "true"}
    async with api.watch(NODES, **query) as watch, api.watch(NODES, resourceVersion=start) as mute:
        made = await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
        server.send_bookmarks()
        event = await watch.next()
        await api.post(NODES, {"metadata": {"name": "n"}})
        assert told(await mute.next()) == ("ADDED", "n")
    assert event == {
        "type": "BOOKMARK",
        "object": {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": made.version},
        },
    }


async def test_bookmarks_are_sent_periodically(node):
    server = ApiServer(bookmark_interval=0.01)
    url = await server.start()
    try:
        query = f"{NODES}?watch=1&resourceVersion=1&allowWatchBookmarks=1"
        async with aiohttp.ClientSession() as session, session.get(url + query) as response:
            lines = [
                await asyncio.wait_for(response.content.readline(), PATIENCE) for _ in range(2)
            ]
        assert all(b"BOOKMARK" in line for line in lines)
    finally:
        await server.close()


async def test_initial_list_can_be_sent_as_events(api, node):
    await api.post(NODES, node("a"))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(NODES, **query) as watch:
        first, bookmark = await watch.events(2)
        await api.post(NODES, node("b"))
        assert told(await watch.next()) == ("ADDED", "b")
    assert told(first) == ("ADDED", "a")
    annotations = bookmark["object"]["metadata"]["annotations"]
    assert annotations == {"k8s.io/initial-events-end": "true"}


async def test_initial_events_without_a_version_match_are_rejected(api):
    reply = await api.get(NODES, watch="true", sendInitialEvents="true")
    assert reply.code == 400


async def test_watch_ends_at_its_timeout(api):
    async with api.watch(NODES, timeoutSeconds="1") as watch:
        assert await watch.next() is None


async def test_closing_server_ends_watches_and_frees_its_port(api, server):
    async with api.watch(NODES) as watch:
        await server.close()
        assert await watch.next() is None
    port = int(server.url.rpartition(":")[2])
    second = ApiServer()
    try:
        assert await second.start(port) == server.url
    finally:
        await second.close()


@pytest.mark.parametrize("accept", ["application/json;as=Table;g=meta.k8s.io;v=v1"])
async def test_watch_can_return_tables(api, node, accept):
    start = (await api.get(NODES)).version
    async with api.watch(NODES, resourceVersion=start, accept=accept) as watch:
        await api.post(NODES, node("a"))
        event = await watch.next()
    assert event["type"] == "ADDED"
    assert event["object"]["kind"] == "Table"
    assert event["object"]["rows"][0]["cells"][:2] == ["a", "Unknown"]


async def test_watch_can_return_metadata_only(api, node):
    start = (await api.get(NODES)).version
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    async with api.watch(NODES, resourceVersion=start, accept=accept) as watch:
        await api.post(NODES, node("a"))
        event = await watch.next()
    assert event["object"]["kind"] == "PartialObjectMetadata"
