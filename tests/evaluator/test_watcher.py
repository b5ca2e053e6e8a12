"""A copy of one kind, kept over a real socket: pages, bookmarks, 410, watches that end, break or lie, a server restarted."""

import asyncio
import json

import pytest

from evaluator.kube import NODES
from evaluator.watcher import Watcher

PATIENCE = 20.0


def obj(name, version, **more):
    return {"metadata": {"name": name, "resourceVersion": str(version)}, **more}


class Copy:
    """The objects known, by name, and the changes in their order."""

    def __init__(self):
        self.objects = {}
        self.log = []
        self._changed = asyncio.Condition()

    def replace(self, objects):
        self.objects = {name(o): o for o in objects}
        self._note(("replace", sorted(self.objects)))

    def put(self, obj):
        self.objects[name(obj)] = obj
        self._note(("put", name(obj)))

    def drop(self, obj):
        self.objects.pop(name(obj), None)
        self._note(("drop", name(obj)))

    def _note(self, what):
        self.log.append(what)
        self._task = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self):
        async with self._changed:
            self._changed.notify_all()

    async def until(self, predicate):
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(predicate)


def name(obj):
    return obj["metadata"]["name"]


def decode(raw):
    found = json.loads(bytes(raw))
    if found.get("kind") == "Unreadable":
        raise ValueError("an object of a kind that nobody can read")
    return found


@pytest.fixture
def copy():
    return Copy()


@pytest.fixture
async def watch(connect, stand, copy, rng, background):
    """Start watching nodes; returns the task."""

    async def start():
        kube = await connect(stand.url)
        return background(Watcher(kube, NODES, decode, copy, rng=rng).run())

    return start


def asked_versions(stand):
    """What each request was: "list", "list more", or the version that a watch went on from."""
    return [
        asked.query["resourceVersion"]
        if "watch" in asked.query
        else "list more"
        if "continue" in asked.query
        else "list"
        for asked in stand.asked
    ]


async def test_a_list_of_several_pages_is_one_truth(watch, stand, answer, copy):
    stand.then(
        answer.lists(obj("a", 1), more="x"),
        answer.lists(obj("b", 2), more="y"),
        answer.lists(obj("c", 3), version="9"),
    )
    await watch()
    await stand.until(4)
    assert copy.log == [("replace", ["a", "b", "c"])]
    assert asked_versions(stand) == ["list", "list more", "list more", "9"]


async def test_events_are_taken_and_bookmarks_only_move_the_version(watch, stand, answer, copy):
    stand.then(
        answer.lists(obj("a", 1), version="1"),
        answer.streams(
            ("ADDED", obj("b", 2)),
            ("MODIFIED", obj("a", 3, spec={"x": 1})),
            ("DELETED", obj("b", 4)),
            ("BOOKMARK", obj("", 50)),
        ),
    )
    await watch()
    await stand.until(3)
    assert copy.log == [("replace", ["a"]), ("put", "b"), ("put", "a"), ("drop", "b")]
    assert copy.objects == {"a": obj("a", 3, spec={"x": 1})}
    assert asked_versions(stand) == ["list", "1", "50"]


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_watch_that_ends_goes_on_where_it_was(watch, stand, answer, copy, end):
    """From its last event and not from its first: otherwise the copy goes back in time and lives through it again."""
    stand.then(
        answer.lists(version="1"),
        answer.streams(("ADDED", obj("a", 5)), ("DELETED", obj("a", 6)), end=end),
        answer.streams(("ADDED", obj("b", 7)), end="hang"),
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    assert asked_versions(stand) == ["list", "1", "6"]
    assert copy.log == [("replace", []), ("put", "a"), ("drop", "a"), ("put", "b")]


@pytest.mark.parametrize("how", ["event", "status"])
async def test_410_lists_again_and_finds_what_was_deleted(watch, stand, answer, copy, how):
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    stand.then(
        answer.lists(obj("a", 1), obj("b", 2), version="2"),
        answer.streams(("ERROR", gone)) if how == "event" else answer.refuses(410, "Expired"),
        answer.lists(obj("b", 2), obj("c", 9), version="9"),
    )
    await watch()
    await copy.until(lambda: "c" in copy.objects)
    await stand.until(4)
    assert sorted(copy.objects) == ["b", "c"]
    assert asked_versions(stand) == ["list", "2", "list", "9"]


async def test_410_between_two_pages_starts_the_list_over(watch, stand, answer, copy):
    stand.then(
        answer.lists(obj("a", 1), more="x"),
        answer.refuses(410, "Expired"),
        answer.lists(obj("b", 2), version="3"),
    )
    await watch()
    await stand.until(4)
    assert copy.log == [("replace", ["b"])]
    assert asked_versions(stand) == ["list", "list more", "list", "3"]


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_a_refused_list_is_asked_for_again(watch, stand, answer, copy, status):
    stand.then(answer.refuses(status), answer.refuses(status), answer.lists(obj("a", 1)))
    await watch()
    await copy.until(lambda: "a" in copy.objects)
    assert copy.log == [("replace", ["a"])]


async def test_lists_that_break_or_are_garbage_are_waited_out(watch, stand, answer, copy):
    stand.then(
        answer.breaks,
        answer.breaks,
        answer.says(200, b"<html>a proxy</html>"),
        answer.lists(obj("a", 1), version="1"),
    )
    await watch()
    await copy.until(lambda: "a" in copy.objects)
    assert copy.log == [("replace", ["a"])]


async def test_watches_that_are_garbage_are_waited_out(watch, stand, answer, copy):
    stand.then(
        answer.lists(version="1"),
        answer.says(502, b"bad gateway"),
        answer.streams(b"<html>not json</html>\n"),
        answer.streams(b'{"type":"ADDED"}\n'),
        answer.streams(("ADDED", obj("b", 2)), end="hang"),
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    assert asked_versions(stand) == ["list", "1", "1", "1", "1"]


async def test_an_error_event_that_is_not_410_keeps_the_version(watch, stand, answer, copy):
    stand.then(
        answer.lists(version="1"),
        answer.streams(("ADDED", obj("a", 5)), ("ERROR", {"code": 500, "message": "etcd"})),
        answer.streams(("ADDED", obj("b", 6)), end="hang"),
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    assert asked_versions(stand) == ["list", "1", "5"]


async def test_a_quiet_watch_that_ends_goes_on_without_running_hot(watch, stand, answer):
    stand.then(answer.lists(version="3"), *[answer.streams() for _ in range(4)])
    await watch()
    asked = await stand.until(6)
    assert asked_versions(stand)[1:6] == ["3"] * 5
    assert {a.query["allowWatchBookmarks"] for a in asked[1:]} == {"true"}


async def test_a_server_restarted_is_found_again(watch, stand, answer, copy):
    stand.then(
        answer.lists(obj("a", 1), version="1"), answer.streams(("ADDED", obj("b", 2)), end="hang")
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    port = int(stand.url.rpartition(":")[2])
    await stand.stop()
    stand.then(answer.streams(("ADDED", obj("c", 3)), end="hang"))
    await stand.start(port)
    await copy.until(lambda: "c" in copy.objects)
    assert asked_versions(stand)[-1] == "2"


async def test_an_object_that_cannot_be_read_hides_no_other(watch, stand, answer, copy):
    bad = obj("bad", 2, kind="Unreadable")
    stand.then(
        answer.lists(obj("a", 1), bad, version="2"),
        answer.streams(("MODIFIED", bad), ("ADDED", obj("b", 3)), end="hang"),
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    assert sorted(copy.objects) == ["a", "b"]
    assert asked_versions(stand) == ["list", "2"]


async def test_a_watch_asks_to_be_ended_in_five_to_ten_minutes(watch, stand, answer):
    stand.then(answer.lists(version="1"))
    await watch()
    await stand.until(2)
    assert 300 <= int(stand.asked[1].query["timeoutSeconds"]) <= 600
