"""A reflector over a real socket: pages, bookmarks, 410, watches that end, break or are invalid, a restarted server."""

import asyncio
import json
import random

import pytest
from aiohttp import web

from evaluator.core.kube.reflector import UNSERVED_PAUSE, Reflector
from evaluator.core.kube.resources import NODES
from evaluator.core.kube.transport import LONGEST_LINE, KubeError
from plimsoll.pace import Pace
from tests.patience import PATIENCE


def obj(name, version, **more):
    return {"metadata": {"name": name, "resourceVersion": str(version)}, **more}


class ListedObjects:
    """The cached objects by name, and the changes in order."""

    def __init__(self):
        self.objects = {}
        self.log = []
        self._changed = asyncio.Condition()

    def replacing(self, objects):
        self.objects = {}
        for o in objects:
            yield
            self.objects[name(o)] = o
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
    return ListedObjects()


@pytest.fixture
async def watch(connect, stub_server, copy, rng, background):
    """Start watching nodes; return the reflector."""

    async def start(**more):
        watcher = Reflector(await connect(stub_server.url), NODES, decode, copy, rng=rng, **more)
        background(watcher.run())
        return watcher

    return start


def asked_versions(stub_server):
    """The kind of each request: "list", "list more", or the version that a watch resumed from."""
    return [
        asked.query["resourceVersion"]
        if "watch" in asked.query
        else "list more"
        if "continue" in asked.query
        else "list"
        for asked in stub_server.asked
    ]


async def test_list_of_several_pages_is_applied_at_once(watch, stub_server, answer, copy):
    stub_server.then(
        answer.lists(obj("a", 1), more="x"),
        answer.lists(obj("b", 2), more="y"),
        answer.lists(obj("c", 3), version="9"),
    )
    await watch()
    await stub_server.until(4)
    assert copy.log == [("replace", ["a", "b", "c"])]
    assert asked_versions(stub_server) == ["list", "list more", "list more", "9"]


async def test_events_are_applied_and_bookmarks_only_advance_the_version(
    watch, stub_server, answer, copy
):
    stub_server.then(
        answer.lists(obj("a", 1), version="1"),
        answer.streams(
            ("ADDED", obj("b", 2)),
            ("MODIFIED", obj("a", 3, spec={"x": 1})),
            ("DELETED", obj("b", 4)),
            ("BOOKMARK", obj("", 50)),
        ),
    )
    await watch()
    await stub_server.until(3)
    assert copy.log == [("replace", ["a"]), ("put", "b"), ("put", "a"), ("drop", "b")]
    assert copy.objects == {"a": obj("a", 3, spec={"x": 1})}
    assert asked_versions(stub_server) == ["list", "1", "50"]


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_ended_watch_resumes_at_its_version(watch, stub_server, answer, copy, end):
    """From its last event, not its first: otherwise the cache would go back in time."""
    stub_server.then(
        answer.lists(version="1"),
        answer.streams(("ADDED", obj("a", 5)), ("DELETED", obj("a", 6)), end=end),
        answer.streams(("ADDED", obj("b", 7)), end="hang"),
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    assert asked_versions(stub_server) == ["list", "1", "6"]
    assert copy.log == [("replace", []), ("put", "a"), ("drop", "a"), ("put", "b")]


@pytest.mark.parametrize("how", ["event", "status"])
async def test_410_relists_and_finds_deletions(watch, stub_server, answer, copy, how):
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    stub_server.then(
        answer.lists(obj("a", 1), obj("b", 2), version="2"),
        answer.streams(("ERROR", gone)) if how == "event" else answer.refuses(410, "Expired"),
        answer.lists(obj("b", 2), obj("c", 9), version="9"),
    )
    await watch()
    await copy.until(lambda: "c" in copy.objects)
    await stub_server.until(4)
    assert sorted(copy.objects) == ["b", "c"]
    assert asked_versions(stub_server) == ["list", "2", "list", "9"]


async def test_410_between_two_pages_restarts_the_list(watch, stub_server, answer, copy):
    stub_server.then(
        answer.lists(obj("a", 1), more="x"),
        answer.refuses(410, "Expired"),
        answer.lists(obj("b", 2), version="3"),
    )
    await watch()
    await stub_server.until(4)
    assert copy.log == [("replace", ["b"])]
    assert asked_versions(stub_server) == ["list", "list more", "list", "3"]


async def test_endless_event_causes_a_list(watch, stub_server, answer, copy):
    """Only a list can pass over it, and it must not be held in memory as a whole."""
    sent = 0

    async def endless(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 4 * LONGEST_LINE and not request.transport.is_closing():
            await response.write(b"x" * (1 << 16))
            await asyncio.sleep(0)  # the client runs in the same event loop
            sent += 1 << 16
        return response

    stub_server.then(
        answer.lists(obj("a", 1), version="1"),
        endless,
        answer.lists(obj("b", 2), version="2"),
    )
    await watch()
    await stub_server.until(4)
    assert asked_versions(stub_server) == ["list", "1", "list", "2"]
    assert copy.log == [("replace", ["a"]), ("replace", ["b"])]
    assert sent < 3 * LONGEST_LINE


def test_longest_delay_between_two_attempts_is_fifteen_seconds():
    class Latest(random.Random):
        def random(self):
            return 1.0

    watcher = Reflector(None, NODES, decode, ListedObjects(), rng=Latest())
    delays = [watcher._wait(KubeError(0, "reset")) for _ in range(20)]
    assert delays == sorted(delays)
    assert delays[-1] <= 15


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_rejected_list_is_retried(watch, stub_server, answer, copy, status):
    stub_server.then(answer.refuses(status), answer.refuses(status), answer.lists(obj("a", 1)))
    await watch()
    await copy.until(lambda: "a" in copy.objects)
    assert copy.log == [("replace", ["a"])]


async def test_broken_or_invalid_lists_are_retried_with_backoff(watch, stub_server, answer, copy):
    stub_server.then(
        answer.breaks,
        answer.breaks,
        answer.says(200, b"<html>a proxy</html>"),
        answer.lists(obj("a", 1), version="1"),
    )
    await watch()
    await copy.until(lambda: "a" in copy.objects)
    assert copy.log == [("replace", ["a"])]


async def test_invalid_watches_are_retried_with_backoff(watch, stub_server, answer, copy):
    stub_server.then(
        answer.lists(version="1"),
        answer.says(502, b"bad gateway"),
        answer.streams(b"<html>not json</html>\n"),
        answer.streams(b'{"type":"ADDED"}\n'),
        answer.streams(("ADDED", obj("b", 2)), end="hang"),
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    assert asked_versions(stub_server) == ["list", "1", "1", "1", "1"]


async def test_error_event_other_than_410_keeps_the_version(watch, stub_server, answer, copy):
    stub_server.then(
        answer.lists(version="1"),
        answer.streams(("ADDED", obj("a", 5)), ("ERROR", {"code": 500, "message": "etcd"})),
        answer.streams(("ADDED", obj("b", 6)), end="hang"),
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    assert asked_versions(stub_server) == ["list", "1", "5"]


async def test_quiet_watch_that_ends_is_reopened_without_a_busy_loop(watch, stub_server, answer):
    stub_server.then(answer.lists(version="3"), *[answer.streams() for _ in range(4)])
    await watch()
    asked = await stub_server.until(6)
    assert asked_versions(stub_server)[1:6] == ["3"] * 5
    assert {a.query["allowWatchBookmarks"] for a in asked[1:]} == {"true"}


async def test_restarted_server_is_found_again(watch, stub_server, answer, copy):
    stub_server.then(
        answer.lists(obj("a", 1), version="1"), answer.streams(("ADDED", obj("b", 2)), end="hang")
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    port = int(stub_server.url.rpartition(":")[2])
    await stub_server.stop()
    stub_server.then(answer.streams(("ADDED", obj("c", 3)), end="hang"))
    await stub_server.start(port)
    await copy.until(lambda: "c" in copy.objects)
    assert asked_versions(stub_server)[-1] == "2"


async def test_quiet_watch_that_the_server_ends_is_opened_again_without_a_warning(
    watch, stub_server, answer, copy, capsys
):
    """API servers before 1.32 send no bookmark while nothing changes."""
    stub_server.then(
        answer.lists(version="1"),
        *[answer.streams()] * 5,
        answer.streams(("ADDED", obj("a", 6)), end="hang"),
    )
    await watch(longest_watch=0.0)  # a server that ends them at once
    await copy.until(lambda: "a" in copy.objects)
    assert asked_versions(stub_server)[:7] == ["list", *["1"] * 6]
    assert "interrupted" not in capsys.readouterr().out


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, "300"), (0.5, "450"), (1.0, "600")])
async def test_server_is_asked_to_end_watches_after_5_to_10_minutes(
    watch, stub_server, answer, rng, monkeypatch, chance, seconds
):
    monkeypatch.setattr(rng, "random", lambda: chance)
    stub_server.then(answer.lists(version="1"), answer.streams(end="hang"))
    await watch()
    await stub_server.until(2)
    assert stub_server.asked[1].query["timeoutSeconds"] == seconds


async def test_watch_that_the_server_does_not_end_is_opened_again(watch, stub_server, answer, copy):
    """The peer may be gone silently."""
    stub_server.then(
        answer.lists(version="1"),
        answer.streams(("BOOKMARK", obj("", 5)), end="hang"),
        answer.streams(end="hang"),
        answer.hangs,
        answer.streams(("ADDED", obj("a", 6)), end="hang"),
    )
    await watch(longest_watch=0.1, grace=0.01)
    await copy.until(lambda: "a" in copy.objects)
    assert asked_versions(stub_server)[:5] == ["list", "1", "5", "5", "5"]


async def test_version_that_keeps_failing_is_dropped(watch, stub_server, answer, copy):
    """An etcd restored from a backup has an older version and reports it with another error than 410."""
    stub_server.then(
        answer.lists(obj("a", 90), obj("b", 91), version="99"),
        *[answer.refuses(504, "Timeout", "Too large resource version")] * 3,
        answer.lists(obj("a", 9), version="10"),
    )
    await watch()
    await copy.until(lambda: copy.log[1:] == [("replace", ["a"])])
    await stub_server.until(6)
    assert asked_versions(stub_server) == ["list", "99", "99", "99", "list", "10"]


async def test_retry_after_of_a_busy_server_is_respected(watch, stub_server, answer):
    async def busy(_request):
        return web.Response(status=429, headers={"Retry-After": "1"})

    stub_server.then(busy, answer.lists(version="1"))
    begin = asyncio.get_running_loop().time()
    await watch()
    await stub_server.until(2)
    assert asyncio.get_running_loop().time() - begin >= 0.99


async def test_listeners_are_called_when_the_cache_is_known_to_be_current(
    watch, stub_server, answer, copy
):
    heard = []
    opened = asyncio.Event()

    def note():
        heard.append(len(copy.log))
        if len(heard) == 3:
            opened.set()

    stub_server.then(
        answer.refuses(500),
        answer.lists(obj("a", 1), version="1"),
        answer.streams(("BOOKMARK", obj("", 5)), end="hang"),
    )
    await watch(on_activity=note)
    async with asyncio.timeout(PATIENCE):
        await opened.wait()
    assert heard == [1, 1, 1], "after the list, with the open watch, with the bookmark"


async def test_unreadable_object_hides_no_other(watch, stub_server, answer, copy):
    bad = obj("bad", 2, kind="Unreadable")
    stub_server.then(
        answer.lists(obj("a", 1), bad, version="2"),
        answer.streams(("MODIFIED", bad), ("ADDED", obj("b", 3)), end="hang"),
    )
    await watch()
    await copy.until(lambda: "b" in copy.objects)
    assert sorted(copy.objects) == ["a", "b"]
    assert asked_versions(stub_server) == ["list", "2"]


async def test_watch_requests_a_timeout_of_five_to_ten_minutes(watch, stub_server, answer):
    stub_server.then(answer.lists(version="1"))
    await watch()
    await stub_server.until(2)
    assert 300 <= int(stub_server.asked[1].query["timeoutSeconds"]) <= 600


async def test_requested_list_begins_after_the_request(watch, stub_server, answer, copy):
    """A list in flight at the time of the request may be older than it."""
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(request):
        began.set()
        await goes_on.wait()
        return await answer.lists(obj("a", 1))(request)

    stub_server.then(slow, answer.lists(obj("a", 2), obj("b", 2)), answer.streams(end="hang"))
    watcher = await watch()
    await began.wait()
    listed = watcher.list_anew()
    goes_on.set()
    await copy.until(lambda: copy.log)
    assert not listed.done()
    async with asyncio.timeout(PATIENCE):
        await listed
    assert copy.objects.keys() == {"a", "b"}


async def test_watch_is_interrupted_for_a_requested_list(watch, stub_server, answer, copy):
    stub_server.then(answer.lists(obj("a", 1)), answer.streams(end="hang"))
    stub_server.then(answer.refuses(500), answer.lists(obj("b", 2), version="7"))
    watcher = await watch()
    await stub_server.until(2)
    async with asyncio.timeout(PATIENCE):
        first = watcher.list_anew()
        await asyncio.sleep(0)  # the watch was cancelled, but has not processed it
        await asyncio.gather(first, watcher.list_anew())
    assert copy.objects.keys() == {"b"}
    asked = await stub_server.until(5)
    assert asked[-1].query["resourceVersion"] == "7"


MISSING = {"code": 404, "reason": "NotFound", "message": "page not found"}


async def test_unserved_kind_is_logged_once_and_retried_at_a_constant_rate(
    watch, stub_server, answer, copy, capsys
):
    """After a growing backoff, nine more attempts would take minutes."""
    lost = []
    stub_server.then(
        answer.lists(obj("a", 1), version="1"),
        answer.streams(("DELETED", obj("a", 2))),
        *(answer.refuses(**MISSING) for _ in range(10)),
        answer.lists(obj("b", 3), version="3"),
    )
    await watch(unserved=lambda: lost.append(copy.log[-1]), unserved_pause=0.01)
    await copy.until(lambda: "b" in copy.objects)
    assert asked_versions(stub_server) == ["list", "1", "2", *["list"] * 10]
    assert lost == [("drop", "a")] * 10
    told = capsys.readouterr().out
    assert told.count("nodes are not served by the API server") == 1
    assert told.count("nodes are served by the API server") == 1
    assert "404" not in told


def test_kind_served_again_is_noticed_within_two_seconds():
    assert UNSERVED_PAUSE <= 2


async def test_decoding_yields_between_two_slow_objects(
    connect, stub_server, answer, rng, background
):
    """As with 200 policies of a megabyte at startup: /healthz must be answered meanwhile."""
    turns = 0

    def noting(raw):
        return decode(raw), turns

    class Pairs(ListedObjects):
        def replacing(self, pairs):
            self.turns = [turn for _, turn in pairs]
            yield from super().replacing([one for one, _ in pairs])

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    objects = [obj(f"n{number}", number) for number in range(20)]
    stub_server.then(answer.lists(*objects))
    copy = Pairs()
    kube = await connect(stub_server.url)
    background(others())
    background(Reflector(kube, NODES, noting, copy, rng=rng, pace=Pace(slice=0.0)).run())
    await copy.until(lambda: len(copy.objects) == 20)
    assert len(set(copy.turns)) == 20
