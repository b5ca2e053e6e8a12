"""The pages of the history: an activity list that filters, as HTML and as JSON."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path

from msgspec import UNSET, structs

from evaluator.core.model.names import PolicyKey
from evaluator.core.pages.part import Scope
from evaluator.core.pages.section import SHOWN, PageError, PageView, Report, Section
from evaluator.core.pages.window import Window
from evaluator.core.policy.decide import Decisions
from evaluator.features.history.history import Entry, History, OwnNumbers, Query
from evaluator.features.history.kinds import (
    Eviction,
    GonePodFields,
    HistoryPage,
    HistoryRecord,
    NodePast,
    NodePastFields,
    Past,
    PastFields,
    PodPast,
    PodPastFields,
    PolicyPastFields,
    SharedActionsFields,
    ShownTimeline,
    Successor,
    TimelinePart,
)
from evaluator.features.history.pods import PodDecisions
from evaluator.features.history.readers import Live
from evaluator.features.history.records import written
from evaluator.features.history.series import Series
from evaluator.features.history.timeline import COLUMNS, timeline
from plimsoll import durations, rfc3339
from plimsoll.http.pieces import stepwise, unhurried

PARAMETERS = ("policy", "node", "pod", "kind", "since", "until", "after", "by")
_INTERVAL = 3600.0
"""Seconds that a timeline shows without `since`."""
_PARTS = 6
"""Parts of a timeline's interval, to each of which a page links."""
_RECENT = 8
"""Newest records on pages about the present."""
_SEARCHED = 200
"""Records and blocks looked through for them."""
_SECONDS = re.compile(r"\d{1,10}(\.\d{1,6})?", re.ASCII)

Clock = Callable[[], float]
_EVICTED = "evicted"
"""The kind of the evictions of another feature, which may be off."""
_MOST_SUCCESSORS = 5


def _no_successors(_pod: str, _since: float) -> Iterator[Successor | None]:
    """Yield nothing: no pods are known."""
    yield from ()


class HistoryReports:
    """Builds the reports. `series`: of readings; `latest` returns the current decisions; `actions`: what is known of actions; `started`: since when this process records; `clock`: Unix seconds."""

    def __init__(
        self,
        history: History | None,
        series: Series,
        latest: Callable[[], Decisions],
        live: Live,
        pods: PodDecisions,
        actions: Callable[[], SharedActionsFields],
        successors: Callable[[str, float], Iterator[Successor | None]] = _no_successors,
        *,
        started: float,
        clock: Clock,
    ) -> None:
        self._history = history
        self._series = series
        self._latest = latest
        self._live = live
        self._pods = pods
        self._actions = actions
        self._successors = successors
        self._started = started
        self._clock = clock

    async def listed(self, window: Window, policy: str = "") -> Report:
        """Report on the records of a page, the newest first. Raises PageError."""
        history, query = self._on(), self.query(window, policy)
        namespace = window.namespace or policy.partition("/")[0]
        own = await stepwise(history.own_numbers(namespace)) if namespace else None
        if own is not None and query.after:
            query = replace(query, after=own.among_all(query.after))
        total = sum(await unhurried(history.matching(query)))
        few = await unhurried(_some(history, query, window, total))
        by = window.given.get("by", "")
        head = HistoryPage(
            recorder=history.recorder,
            newest=history.newest_of(namespace),
            complete_since=rfc3339.millis(history.complete_since(self._started)),
            actions=self._actions(),
            filters={name: window.given.get(name, "") for name in PARAMETERS},
            kinds=list(history.kinds),
            window=window.described(total, total),
            policy=policy or UNSET,
            timeline=await self._timeline(query, by) if by else UNSET,
        )
        return Report(head, arrays={"records": (_record(e, own) for e in few if e is not None)})

    def position_of(self, scope: Scope) -> str:
        """Return the position of the newest record of a scope's namespace, or of all."""
        return self._live.position_of(scope)

    async def changed(self, scope: Scope, after: str) -> tuple[str, bool]:
        """Wait for a record of a scope; see `PagePast`."""
        return await self._live.changed(scope, after)

    async def of_all(self, window: Window) -> PastFields:
        """Return the past of the nodes, in the namespace and interval of a window. Raises PageError."""
        past = await self._past(window, Query(namespace=window.namespace), "node")
        return PastFields(past=past)

    async def of_policy(self, key: PolicyKey, window: Window) -> PolicyPastFields:
        """Return the past of the nodes in one policy. Raises PageError."""
        query = Query(namespace=key.namespace, policy=str(key))
        return PolicyPastFields(past=await self._past(window, query, "node"))

    def of_pod(self, name: str) -> PodPastFields:
        """Return the last decision for a pod."""
        return PodPastFields(past=PodPast(decision=self._pods.last_decision(name)))

    async def of_gone_pod(self, name: str) -> GonePodFields | None:
        """Return the last eviction of a pod, if one is known, and the pods that replaced it."""
        if self._history is None or _EVICTED not in self._history.action_kinds:
            return None
        query = Query(pod=name, kinds=frozenset({_EVICTED}))
        entries = await unhurried(self._history.newest_first(query))
        last = next((entry.fields for entry in entries if entry is not None), None)
        if last is None:
            return None
        found = await unhurried(self._successors(name, last["at"]))
        return GonePodFields(
            Eviction(
                at=rfc3339.millis(last["at"]),
                policy=last.get("policy", ""),
                node=last.get("node", ""),
                why=last.get("text", ""),
                successors=[one for one in found if one is not None][:_MOST_SUCCESSORS],
            )
        )

    async def of_node(self, name: str, window: Window) -> NodePastFields:
        """Return the past of one node in each policy. Raises PageError."""
        past = await self._past(window, Query(node=name), "policy")
        given, now = self.query(window), self._clock()
        since = given.since if given.since > 0 else now - _INTERVAL
        metrics = self._latest().table.prepared
        kept = await unhurried(
            self._series.metrics_of(name, list(metrics), since, min(given.until, now))
        )
        found = NodePast(
            **structs.asdict(past),
            series={metric: list(points) for metric, points in kept},
            series_left_out=len(self._series.left_out),
        )
        return NodePastFields(past=found)

    async def _past(self, window: Window, about: Query, by: str) -> Past:
        given = self.query(window)
        query = replace(about, since=given.since, until=given.until)
        line = await self._timeline(query, by)
        namespace = query.namespace
        own = await stepwise(self._on().own_numbers(namespace)) if namespace else None
        few: list[Entry] = []
        for entry in await unhurried(itertools.islice(self._on().newest_first(query), _SEARCHED)):
            if entry is not None and len(few) < _RECENT:
                few.append(entry)
        return Past(
            timeline=line,
            by=by,
            records=[_record(entry, own) for entry in few],
            complete_since=rfc3339.millis(self._on().complete_since(self._started)),
            actions=self._actions(),
            interval={name: window.given.get(name, "") for name in ("since", "until")},
        )

    async def _timeline(self, query: Query, by: str) -> ShownTimeline:
        """Return the rows by node, or by policy of one node. Raises PageError."""
        if by not in {"node", "policy"} or (by == "policy" and not query.node):
            sentence = f"by={by[:SHOWN]}: not node, or policy with node=NAME"
            raise PageError(sentence, HTTPStatus.BAD_REQUEST)
        now = self._clock()
        since = query.since if query.since > 0 else now - _INTERVAL
        within = replace(query, since=since, until=min(query.until, now))
        if not since < within.until:
            raise PageError("since is not before until", HTTPStatus.BAD_REQUEST)
        made = await stepwise(timeline(self._on(), self._latest(), within, by=by))
        return ShownTimeline(
            since=rfc3339.millis(made.since),
            until=rfc3339.millis(made.until),
            parts=_parts(made.since, made.until),
            columns=COLUMNS,
            rows=await stepwise(made.shown_rows()),
            rows_more=made.more,
        )

    def _on(self) -> History:
        if self._history is None:
            raise PageError("the history is off (--no-history)")
        return self._history

    def query(self, window: Window, policy: str = "") -> Query:
        """Return which records a window shows. Raises PageError for filters that cannot be read."""
        given, now = window.given, self._clock()
        after = given.get("after", "")
        if after and not (after.isascii() and after.isdigit() and len(after) < 19):
            raise PageError(f"after={after[:SHOWN]}: not a record's number", HTTPStatus.BAD_REQUEST)
        since, until = given.get("since", ""), given.get("until", "")
        return Query(
            namespace=window.namespace,
            policy=policy or given.get("policy", ""),
            node=given.get("node", ""),
            pod=given.get("pod", ""),
            kinds=_kinds(given.get("kind", ""), self._on().kinds),
            after=int(after or 0),
            **{"since": _moment("since", since, now)} if since else {},
            **{"until": _moment("until", until, now)} if until else {},
        )

    async def explained(self, name: str) -> Report:
        """Report on the newest records, of a policy or of all without a name."""
        return await self.listed(Window(), name)

    def listed_page(self, window: Window) -> PageView:
        """Return the page of the list."""
        return PageView("history.html", "History", partial(self.listed, window))

    def policy_page(self, name: str, window: Window) -> PageView:
        """Return the page of one policy's records."""
        return PageView("history.html", "History", partial(self.listed, window, name), name)


def section(reports: HistoryReports, *, shown: bool) -> Section:
    """Return the pages of the history."""
    return Section(
        name="history",
        title="History",
        shown=shown,
        templates=Path(__file__).parent / "templates",
        listed=reports.listed_page,
        one=reports.policy_page,
        query="history",
        explained=reports.explained,
        see={
            "history": "/explain?history=",
            "policyHistory": "/explain?history=<namespace>/<name>",
        },
        parameters=PARAMETERS,
    )


def _record(entry: Entry, own: OwnNumbers | None) -> HistoryRecord:
    """Return a record as data, with its own number on pages of a namespace: others count records of other namespaces."""
    fields = entry.fields
    return written(fields if own is None else {**fields, "number": own.own(entry.number)})


def _parts(since: float, until: float) -> list[TimelinePart]:
    """Return an interval in equal parts, each with its bounds."""
    bounds = [rfc3339.millis(since + (until - since) * n / _PARTS) for n in range(_PARTS + 1)]
    return [TimelinePart(*bound) for bound in itertools.pairwise(bounds)]


def _some(history: History, query: Query, window: Window, total: int) -> Iterator[Entry | None]:
    """Yield the records of a page, and None between steps."""
    skipped = window.skipped if window.skipped < total else total // window.size * window.size
    left = window.size
    for entry in history.newest_first(query):
        if entry is None or skipped > 0:
            skipped -= entry is not None
            yield None
            continue
        yield entry
        left -= 1
        if not left:
            return


def _kinds(text: str, known: Sequence[str]) -> frozenset[str]:
    """Return the kinds of a filter, separated by commas. Raises PageError."""
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    unknown = next((name for name in wanted if name not in known), None)
    if unknown is not None:
        message = f"no kind {unknown[:SHOWN]}; kinds are {', '.join(known)}"
        raise PageError(message, HTTPStatus.BAD_REQUEST)
    return frozenset(wanted)


def _moment(name: str, text: str, now: float) -> float:
    """Return a time as Unix seconds: given as such, as RFC 3339, or as a duration before now, like 15m. Raises PageError."""
    if _SECONDS.fullmatch(text):
        return float(text)
    if (at := rfc3339.parse_or_none(text)) is not None:
        return at
    try:
        return now - durations.duration(text)
    except ValueError:
        raise PageError(
            f"{name}={text[:SHOWN]}: not a time (write it like 15m, 2026-11-20T09:15:04Z, or Unix seconds)",
            HTTPStatus.BAD_REQUEST,
        ) from None
