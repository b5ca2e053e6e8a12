"""The activity list as JSON and HTML, and its filters."""

import asyncio
import dataclasses
import json
import re
from pathlib import Path

import pytest

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.http.ops import OpsServer
from evaluator.core.http.ports import attributes_of
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.pod import Pod, PodMeta, PodSpec, PodStatus
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.durations import Phase
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.readings.store import Store
from evaluator.core.signals import ActionKind, Answered
from evaluator.features.history import page as history_page
from evaluator.features.history.history import History, Query
from evaluator.features.history.kinds import SharedActionsFields
from evaluator.features.history.page import HistoryReports, section
from evaluator.features.history.plan import Transition, Transitions
from evaluator.features.history.pods import PodDecisions
from evaluator.features.history.readers import MOST, Live
from evaluator.features.history.records import Kind
from evaluator.features.history.series import Series
from evaluator.features.pages.feature import routes
from evaluator.features.pages.handlers import Reports
from evaluator.features.pages.rendering import Drawing
from evaluator.features.pages.sources import PageSources
from evaluator.features.pages.targets import Targets
from plimsoll.http.types import Parts, Request
from plimsoll.steps import finished
from tests.patience import PATIENCE
from wire.codec import Delta

NOW = 1_700_000_000.0
TEMPLATES = Path(history_page.__file__).parent / "templates"
KINDS = (*ActionKind, "evicted", "requeued")
"""Of actions."""
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


class Pages:
    """The ops pages of an evaluator with a history."""

    def __init__(self, *, on=True, patient=True):
        self.history = History(1 << 20, 3600.0, KINDS) if on else None
        self.actions = SharedActionsFields("2023-11-14T22:03:20.000Z", 0, None, None)
        self.series, self.stopping = Series(1 << 20), []
        self.live = Live(
            self.history or History(1 << 20, 3600.0, KINDS),
            lambda: self.stopping,
            patience=PATIENCE if patient else 0.05,
            pause=0.01,
        )
        history = self.history or History(1 << 20, 3600.0, KINDS)
        self.pods = PodDecisions(history, lambda: self.decisions, lambda _pod: "", 1 << 20)
        reports = HistoryReports(
            self.history,
            self.series,
            lambda: self.decisions,
            self.live,
            self.pods,
            lambda: self.actions,
            started=NOW - 600,
            clock=lambda: NOW,
        )
        self.decisions = Decisions()
        self.drawn, self.now = [], 0.0
        past = reports if on else None
        part = PagePart(section=section(reports, shown=on), past=past, evaluator=self._evaluator)
        parts = [part]
        metrics, cluster = Metrics(), ClusterCache()
        store = Store(stale_after=9.0, started=0.0)
        self.cluster = cluster
        self.loop = loop = DecisionLoop(cluster, store, Subscriptions(), metrics, clock=lambda: 0.0)
        self.store = store
        sources = PageSources(loop, cluster, clock=lambda: self.now, parts=lambda: parts)
        self.targets = Targets(sources.sections)
        self.server = OpsServer(loop, metrics, pages=routes(Reports(sources), self.targets))

    def _evaluator(self):
        """Count the overviews that are made."""
        self.drawn.append(self.live.position)

    def decide(self, nodes, **values):
        """Report readings of the nodes, and decide."""
        self.cluster.nodes.replace([Node(NodeMeta(name=name, uid=name)) for name in nodes])
        self.cluster.pods.replace([])
        self.loop.evaluate()
        for name in nodes:
            self.store.report(name, Delta(values), 0.0)
        self.loop.evaluate()
        self.decisions = self.loop.latest

    def request(self, path, accept="text/html", **query):
        given = {name: [value] for name, value in query.items()}
        return Request("GET", path, given, {"accept": accept})

    async def event(self, path, last="", status=200):
        """Return the fields of the answer to an EventSource."""
        request = self.request(path, "text/event-stream")
        headers = {**request.headers, **({"last-event-id": last} if last else {})}
        response = await self.server.answer(dataclasses.replace(request, headers=headers))
        assert response.status == status
        if status != 200:
            return {}
        assert response.content_type.startswith("text/event-stream")
        lines = response.body.decode().removesuffix("\n\n").split("\n")
        return dict(line.split(": ", 1) for line in lines)

    async def get(self, path, status=200, last="", **query):
        request = self.request(path, **query)
        headers = {**request.headers, **({"last-event-id": last} if last else {})}
        response = await self.server.answer(dataclasses.replace(request, headers=headers))
        made = response.body
        text = b"".join(made.parts if isinstance(made, Parts) else [made]).decode()
        assert response.status == status, text
        return text

    async def records(self, path="/history.json", **query):
        return json.loads(await self.get(path, **query))["records"]


@pytest.fixture
def pages():
    made = Pages()
    add = made.history.add
    key, other = PolicyKey("ns", "demo"), PolicyKey("other", "demo")
    add(Kind.POLICY, NOW - 500, policy=key, text="created")
    add("evicted", NOW - 400, policy=key, node="node-a", pod="ns/web", text="m GreaterThan 5")
    add("requeued", NOW - 300, policy=other, pod="other/web")
    add(ActionKind.WRITTEN, NOW - 200, node="node-a", text="labels: x=y")
    add(ActionKind.LEADER, NOW - 100, text="replica-a leads")
    return made


async def test_newest_record_is_first_with_all_that_is_known(pages):
    page = json.loads(await pages.get("/history.json"))
    assert [one["number"] for one in page["records"]] == [5, 4, 3, 2, 1]
    assert page["records"][3] == {
        "number": 2,
        "at": "2023-11-14T22:06:40.000Z",
        "kind": "evicted",
        "policy": "ns/demo",
        "node": "node-a",
        "pod": "ns/web",
        "mode": "enforce",
        "text": "m GreaterThan 5",
    }
    assert (page["newest"], page["completeSince"]) == (5, "2023-11-14T22:03:20.000Z")
    assert json.loads(await pages.get("/explain", history=""))["records"] == page["records"]


@pytest.mark.parametrize(
    ("path", "query", "numbers"),
    [
        ("/history.json", {"node": "node-a"}, [4, 2]),
        ("/history.json", {"kind": "written,leader"}, [5, 4]),
        ("/history.json", {"pod": "other/web"}, [3]),
        ("/history.json", {"since": "5m", "until": "2m"}, [4, 3]),
        ("/history.json", {"since": "2023-11-14T22:11:00Z"}, [5]),
        ("/history.json", {"after": "3"}, [5, 4]),
        ("/history.json", {"page": "9"}, [5, 4, 3, 2, 1]),
        ("/history/ns.json", {}, [2, 1]),
        ("/history/ns.json", {"policy": "other/demo"}, []),
        ("/history/ns/demo.json", {}, [2, 1]),
        ("/history/ns/demo.json", {"policy": "other/demo"}, [2, 1]),
    ],
)
async def test_filters_select_records(pages, path, query, numbers):
    assert [one["number"] for one in await pages.records(path, **query)] == numbers


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"kind": "evcted"}, "no kind evcted; kinds are cleared, pending"),
        ({"since": "yesterday"}, "since=yesterday: not a time (write it like 15m"),
        ({"after": "-1"}, "after=-1: not a record's number"),
    ],
)
async def test_unreadable_filter_is_an_error_that_says_what_to_write(pages, query, why):
    assert why in await pages.get("/history.json", 400, **query)


async def test_permission_of_a_namespace_covers_its_records_only(pages):
    """No parameter of the query reaches further than the path that the permission names."""
    paths = {}
    for path in ("/history", "/history/ns", "/history/ns.json", "/history/ns/demo"):
        request = pages.request(path, policy="other/demo", node="node-a", namespace="other")
        paths[path] = attributes_of(request, resource_path=pages.targets.resource_path).path
    assert paths == {
        "/history": "/plimsoll/history",
        "/history/ns": "/plimsoll/history/ns/",
        "/history/ns.json": "/plimsoll/history/ns/",
        "/history/ns/demo": "/plimsoll/history/ns/demo",
    }
    for path in ("/history/ns.json", "/history/ns/demo.json"):
        shown = await pages.get(path, node="node-a")
        assert "other" not in shown


async def test_page_of_an_evicted_pod_says_how_it_went(pages):
    pages.cluster.pods.replace([])
    page = json.loads(await pages.get("/pods/ns/web.json"))
    assert page["summary"] == "gone"
    assert page["evicted"] == {
        "at": "2023-11-14T22:06:40.000Z",
        "policy": "ns/demo",
        "node": "node-a",
        "why": "m GreaterThan 5",
        "successors": [],
    }
    assert json.loads(await pages.get("/explain", pod="ns/web"))["evicted"] == page["evicted"]
    text = await pages.get("/pods/ns/web")
    assert "evicted" in text
    assert "m GreaterThan 5" in text
    await pages.get("/pods/ns/other", 404)


async def test_html_page_shows_the_records_and_keeps_hostile_text_inert(pages):
    pages.history.add("evicted", NOW, pod=f"ns/{HOSTILE}", node=HOSTILE, text=HOSTILE)
    text = await pages.get("/history", node=HOSTILE)
    assert "evicted" in text
    for raw in ("<script>alert", "\u202e", "\x1b"):
        assert raw not in text


async def test_label_is_no_fault(pages, parsed, rule):
    """A rule of `labeling` holds, as on other pages; it has no colour of a violation, and no row in the timeline."""
    policy = parsed("demo", labeling=[rule("m GreaterThan 5", "hot=yes")])
    for now, was in (("VIOLATED", "CLEAR"), ("CLEAR", "VIOLATED")):
        move = Transition("node-a", Phase[was], Phase[now], 0, None, 6.0)
        moved = Transitions(policy, StrategyName.LABELING, [move])
        list(pages.history.add_transitions([moved], NOW - 1))
    text = await pages.get("/history", policy="ns/demo", since="1m", by="node")
    for word in ("holds", "cleared"):
        assert f'<span class="state off">{word}</span> (labeling)' in text
    assert 'class="state bad"' not in text
    assert "No change and no violation" in text


async def test_no_piece_of_a_page_grows_with_records_and_rows(pages):
    """A piece is drawn in one step of the event loop."""
    found = json.loads(await pages.get("/history.json", by="node", since="10m"))
    runs = [[column, 1, "violated"] for column in range(0, 240, 2)]
    row = {"name": "node-a", "transitions": 1, "now": "clear", "violatedShare": 0.5, "runs": runs}
    around = dict.fromkeys(("title", "subject", "section", "json", "made", "replica"), "x")
    around |= {"root": "./", "navigation": [], "version": "1", "notices": ()}
    drawing, most = Drawing(TEMPLATES), []
    for count in (4, 40):
        found["timeline"]["rows"] = [row] * count
        shown = {**found, "records": found["records"] * count}
        pieces = drawing._templates.pieces("history.html", {**around, "page": shown})
        most.append(max(map(len, pieces)))
    assert most[1] == most[0]


async def test_page_says_that_the_history_is_off():
    assert "--no-history" in await Pages(on=False).get("/history", 404)


async def test_timeline_needs_rows_that_can_be_drawn(pages):
    drawn = json.loads(await pages.get("/history.json", by="node", since="10m"))["timeline"]
    assert (drawn["since"], drawn["rows"]) == ("2023-11-14T22:03:20.000Z", [])
    filtered = await pages.get("/history", by="node", since="10m")
    assert '<input type="hidden" name="by" value="node">' in filtered  # the form keeps it
    for query in ({"by": "pod"}, {"by": "policy"}, {"by": "node", "since": "5m", "until": "6m"}):
        await pages.get("/history.json", 400, **query)


async def test_pages_of_the_present_show_the_past_of_an_interval(pages):
    page = json.loads(await pages.get("/index.json", since="10m"))["past"]
    assert [one["number"] for one in page["records"]] == [5, 4, 3, 2, 1]
    assert len(page["timeline"]["parts"]) == 6
    zoomed = json.loads(await pages.get("/index.json", **page["timeline"]["parts"][1]))["past"]
    assert [one["number"] for one in zoomed["records"]] == [1]
    assert "No change and no violation" in await pages.get("/", since="15m")
    own = json.loads(await pages.get("/policies/ns.json", since="10m"))["past"]
    assert [one["number"] for one in own["records"]] == [2, 1]


async def test_page_of_a_node_draws_its_readings_with_the_limit(pages, parsed, rule):
    pages.cluster.policies.replace([parsed("demo", dontschedule=[rule("m_bytes GreaterThan 5")])])
    for minute in range(4):
        pages.decide(["node-a"], m_bytes=2048.0 * (minute + 1))
        list(pages.series.sample(pages.decisions, NOW - 240 + 60 * minute))
    past = json.loads(await pages.get("/nodes/node-a.json", since="10m"))["past"]
    assert [point[2] for point in past["series"]["m_bytes"]] == [2048.0, 4096.0, 6144.0]
    text = await pages.get("/nodes/node-a", since="10m")
    assert 'aria-label="from 2 KiB to 6 KiB, lowest 2 KiB, highest 6 KiB"' in text
    assert 'class="limit"' in text


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("/", {"policy": PolicyKey("any", "demo")}),
        ("/policies/ns", {"policy": PolicyKey("ns", "demo")}),
        ("/policies/ns/demo", {"policy": PolicyKey("ns", "demo")}),
        ("/nodes/node-a", {"node": "node-a"}),
        ("/history/ns", {"pod": "ns/web"}),
        ("/pods/ns/web", {"policy": PolicyKey("ns", "demo")}),
    ],
)
async def test_event_arrives_once_what_the_page_shows_changed(pages, path, changes):
    """Records of others, before and meanwhile, are no event."""
    others = {} if path == "/" else {"policy": PolicyKey("ns-2", "demo"), "node": "node-b"}
    position = (await pages.event(path, "0123456789ab-7"))["id"]
    waiting = asyncio.create_task(pages.event(path, position))
    await asyncio.sleep(0)
    if others:
        pages.history.add("evicted", NOW, pod="ns-2/web", **others)
        _, pending = await asyncio.wait([waiting], timeout=0.1)
        assert pending
    pages.history.add("evicted", NOW, **changes)
    event = await waiting
    assert event["event"] == "change"
    assert event["id"] == event["data"] == (await pages.event(path, "0123456789ab-7"))["id"]
    assert event["id"] != position


NAMESPACED = ["/history/ns", "/history/ns/demo", "/policies/ns", "/policies/ns/demo"]


def storm(pages):
    """Records of others, among them some that also name an object of the namespace."""
    for number in range(7):
        other = PolicyKey("other", "demo")
        pages.history.add("evicted", NOW - 50 + number, policy=other, pod="other/web")
        pages.history.add("evicted", NOW - 50 + number, policy=other, pod="ns/web")
        pages.history.add(ActionKind.WRITTEN, NOW - 50 + number, node="node-a")


@pytest.mark.parametrize("path", NAMESPACED)
async def test_records_of_others_change_no_figure_of_a_namespace(pages, path, parsed, rule):
    """Numbers, the newest one, totals and positions count the records of the namespace alone."""
    pages.cluster.policies.replace([parsed("demo", dontschedule=[rule("m Equals 1")])])
    pages.decide(["node-a"], m=0.0)

    async def figures():
        made = json.loads(await pages.get(f"{path}.json", since="10m"))
        text = await pages.get(path, since="10m")
        [live] = re.findall(r"[0-9a-f]{12}-(\d+)", text)[:1] or [""]
        event = (await pages.event(path, "0123456789ab-7"))["id"].partition("-")[2]
        past = made.get("past", made)
        return made.get("newest"), [one["number"] for one in past["records"]], live, event

    before = await figures()
    storm(pages)
    assert await figures() == before
    pages.history.add("evicted", NOW - 10, policy=PolicyKey("ns", "demo"), pod="ns/web")
    newest, numbers, _, event = await figures()
    assert (newest, numbers, event) == (before[0] and 3, [3, 2, 1], "3")


async def test_after_selects_by_the_numbers_of_the_namespace(pages):
    storm(pages)
    pages.history.add("evicted", NOW - 10, policy=PolicyKey("ns", "demo"), pod="ns/web")
    for after, numbers in (("0", [3, 2, 1]), ("1", [3, 2]), ("2", [3]), ("3", []), ("9", [])):
        found = await pages.records("/history/ns.json", after=after)
        assert [one["number"] for one in found] == numbers


def test_own_numbers_go_on_when_records_are_dropped():
    history = History(60_000, 3600.0, KINDS)
    for number in range(3000):
        namespace = "ns" if number % 3 == 0 else "other"
        history.add("evicted", NOW + number, policy=PolicyKey(namespace, "demo"))
    assert history.dropped
    own = finished(history.own_numbers("ns"))
    assert own.newest == history.newest_of("ns") == 1000
    kept = [one for one in history.newest_first(Query(namespace="ns")) if one is not None]
    numbers = [own.own(one.number) for one in kept]
    assert numbers == list(range(1000, 1000 - len(kept), -1))
    assert [own.among_all(number) for number in numbers] == [one.number for one in kept]
    assert own.among_all(1) == 0


async def test_position_of_another_replica_is_an_event_at_once(pages):
    for last in ("0123456789ab-7", "hostile", f"{pages.live.position}\u0663"):
        assert (await pages.event("/", last))["event"] == "change"


async def test_nothing_new_ends_the_wait_so_that_access_is_checked_again():
    pages = Pages(patient=False)
    assert await pages.event("/") == {"retry": "1000", "id": pages.live.position}


async def test_pages_that_wait_are_bounded_and_end_with_the_replica(pages):
    """The one that waited longest ends: it may be closed, which is not noticed."""
    waiting = [asyncio.create_task(pages.event("/")) for _ in range(MOST)]
    await asyncio.sleep(0)
    more = asyncio.create_task(pages.event("/"))
    done, pending = await asyncio.wait([*waiting, more], return_when=asyncio.FIRST_COMPLETED)
    assert (done, len(pending)) == ({waiting[0]}, MOST)
    pages.stopping.append("this replica is stopping")
    assert all("event" not in answer for answer in await asyncio.gather(*waiting, more))
    assert "event" not in await pages.event("/")


async def test_live_page_is_drawn_once_for_all_its_readers_and_shows_the_last_change(pages):
    """Each reader knows another position; in a storm, the page is drawn once in its interval, twenty seconds at most."""
    positions = [pages.live.position] * 10
    shown = [""] * 10
    for interval in range(1, 5):
        pages.now += 20.0
        for part in range(10):  # readers ask one after another, and meanwhile it changes again
            text = f"labels: storm-{interval}-{part}"
            pages.history.add(ActionKind.WRITTEN, NOW, node="node-a", text=text)
            event = await pages.event("/", positions[part])
            positions[part] = event["id"]
            if "event" in event:
                shown[part] = await pages.get("/", last=event["id"])
        assert len(pages.drawn) == interval
        assert len(set(shown)) == 1
    pages.now += 20.0
    for part in range(10):
        event = await pages.event("/", positions[part])
        assert event["event"] == "change"
        assert "storm-4-9" in await pages.get("/", last=event["id"])
        again = asyncio.create_task(pages.event("/", event["id"]))
        _, pending = await asyncio.wait([again], timeout=0.02)
        assert pending  # it has all there is
        again.cancel()
    assert len(pages.drawn) == 5


async def test_reader_of_a_recent_drawing_asks_again_when_it_may_be_drawn_again(pages):
    position = pages.live.position
    assert "labels: late" not in await pages.get("/", last=position)
    pages.history.add(ActionKind.WRITTEN, NOW, node="node-a", text="labels: late")
    event = await pages.event("/", position)
    assert (event.keys(), event["id"]) == ({"retry", "id"}, position)
    assert 1_000 <= int(event["retry"]) <= 20_000
    assert "labels: late" not in await pages.get("/", last=position)
    assert "labels: late" in await pages.get("/")  # a person who opens it gets it as it is now
    pages.now += 20.0
    assert (await pages.event("/", position))["event"] == "change"


async def test_drawing_is_shared_by_requests_for_the_same_page_only(pages):
    """What a page depends on, and what its permission is about: path, filters and the objects named in the query."""
    position = pages.live.position
    seen = {}
    for path, query in (
        ("/", {}),
        ("/", {"search": "a"}),
        ("/", {"since": "15m"}),
        ("/policies/ns", {}),
        ("/policies/other", {}),
        ("/history/ns", {}),
        ("/history/other/demo", {}),
        ("/history", {"node": "node-a"}),
    ):
        text = await pages.get(path, last=position, **query)
        assert text not in seen.values()
        seen[path, tuple(query.items())] = text
        pages.history.add(ActionKind.LEADER, NOW, text="another replica leads")
        assert await pages.get(path, last=position, live="x", **query) == text
    for name in ("ns/none", "other/none"):
        await pages.get("/pods", 404, last=position, pod=name)


async def test_pages_are_not_live_without_history():
    await Pages(on=False).event("/", status=404)


async def test_page_of_a_pod_says_what_was_decided_then(pages, parsed, rule):
    policy = parsed("demo", dontschedule=[rule("m_bytes GreaterThan 5")])
    pages.cluster.policies.replace([policy])
    pages.decide(["node-a", "node-b"], m_bytes=2048.0)
    refused = pages.decisions.policies[policy.key].dontschedule
    names = ["node-a", "node-b"]
    pages.pods.answered(Answered("ns/web", policy.key, pages.decisions, len(names), refused))
    list(pages.pods.steps())
    meta = PodMeta(name="web", namespace="ns", labels={"telemetry-policy": "demo"})
    pages.cluster.pods.replace([Pod(meta, PodSpec(requests_extender=True), PodStatus("Pending"))])
    pages.loop.evaluate()
    for path in ("/pods/ns/web.json", "/explain"):
        query = {"pod": "ns/web"} if path == "/explain" else {}
        decision = json.loads(await pages.get(path, **query))["past"]["decision"]
        assert (decision["refused"], decision["candidates"]) == (2, 2)
    text = await pages.get("/pods/ns/web")
    assert "refused 2 of 2 nodes that kube-scheduler asked about" in text
    assert "2 KiB" in text
