"""`history` and `top`: what changed, as the evaluator recorded it, once or as it happens."""

import argparse
import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kubectl_plimsoll.evaluator import Evaluator, Page, UnreachableError
from kubectl_plimsoll.table import Cell, Style, table
from plimsoll.quantity import readable
from plimsoll.text import counted

PAUSE = 2.0
"""Seconds between two requests with --watch."""
_COLOURS = {
    "violated": "bad",
    "clearing": "doubtful",
    "pending": "doubtful",
    "cleared": "good",
    "not written": "bad",
    "not evicted": "doubtful",
}
_LABELING = "labeling"
"""The strategy whose rules hold: a label is no fault."""
_HEAD = ("TIME", "WHAT", "POLICY", "OBJECT", "WHY")
CLEAR = "\x1b[H\x1b[2J"
"""Moves the cursor to the top left and clears the terminal."""
_BAR = 30
_MARKS = {"violated": "#", "clearing": "+", "pending": "."}


class HistoryPages:
    """Requests records. `namespace`: records of that one only; empty for all."""

    def __init__(self, service: Evaluator, given: argparse.Namespace) -> None:
        self._service = service
        self._given = given

    def path(self, kind: str = "", name: str = "") -> tuple[str, dict[str, str]]:
        """Return the path and the query of an object's records, or of all."""
        namespace, given = self._given.namespace or "", self._given
        query = {
            field: value for field, value in (("since", given.since), ("kind", given.kind)) if value
        }
        if kind == "node":
            return namespace, {"node": name, **query}
        if kind:
            inside, _, rest = name.rpartition("/")
            inside = inside or namespace or self._service.current_namespace()
            if kind == "policy":
                return f"{inside}/{rest}", query
            return inside, {"pod": f"{inside}/{rest}", **query}
        return namespace, query

    def get(self, path: str, query: Mapping[str, str]) -> Page:
        """Return a page of records. Raises UnreachableError."""
        where = f"history/{path}.json" if path else "history.json"
        return self._service.get(query=query, page=where)

    def top(self) -> Page:
        """Return the nodes that changed most. Raises UnreachableError."""
        path, query = self.path()
        return self.get(path, {**query, "by": "node"})


def history(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Yield the records of a page, the oldest first."""
    records = page.get("records", [])
    if not records:
        actions = page.get("actions", {})
        begin = f"of actions since {_moment(actions['since'])}, and " if "since" in actions else ""
        yield f"no records {begin}of the rest since {_moment(page.get('completeSince', ''))}"
        yield from _incomplete(actions)
        return
    lines = table(_HEAD, map(_row, reversed(records)), style)
    yield from lines[1:] if page.get("continued") else lines
    if more := page.get("window", {}).get("found", 0) - len(records):
        yield f"and {counted(more, 'older record')}: --since and --kind select some"
    if not page.get("continued"):
        yield from _incomplete(page.get("actions", {}))


def _incomplete(actions: Mapping[str, Any]) -> Iterator[str]:
    """Yield since when actions are unknown, and why."""
    if problem := actions.get("problem"):
        yield f"since {_moment(actions.get('problemSince') or '')}, {problem}"
    if left_out := actions.get("leftOut", 0):
        older = counted(left_out, "action")
        yield f"{older} before {_moment(actions.get('since', ''))} were left out for want of room"


def top(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Yield the nodes that violate a policy, or changed most, with a bar of the interval."""
    line = page.get("timeline", {})
    rows = [
        [
            row["name"],
            Cell(row["now"], _COLOURS.get(row["now"], "good")),
            str(row["transitions"]),
            f"{100 * row['violatedShare']:.0f}%",
            _bar(row["runs"], line["columns"]),
        ]
        for row in line.get("rows", [])
    ]
    begin, end = (_moment(line.get(name, "")) for name in ("since", "until"))
    if not rows:
        yield f"no node violates a policy or changed from {begin} to {end}"
        return
    yield from table(["NODE", "NOW", "CHANGES", "VIOLATED", f"{begin} TO {end}"], rows, style)
    if more := int(line.get("rowsMore", 0)):
        yield f"and {counted(more, 'more node')}"


def watch_history(
    pages: HistoryPages, path: str, query: Mapping[str, str], show: Callable[[Page], None]
) -> None:
    """Show records, then those that are added, until interrupted. Raises UnreachableError if the first request fails.

    Numbers are those of one replica: after another one answered, records follow by their time.
    """
    page = pages.get(path, query)
    show(page)
    last = page
    while True:
        time.sleep(PAUSE)
        try:
            page = pages.get(path, {**query, **_after(last)})
            if page.get("recorder") != last.get("recorder") and "after" in _after(last):
                page = pages.get(path, {**query, "since": _newest(last)})
        except UnreachableError:
            continue
        if page.get("records"):
            show({**page, "continued": True})
            last = page
        elif page.get("recorder") == last.get("recorder"):
            last = {**last, "newest": page.get("newest", 0)}


def _after(page: Page) -> dict[str, str]:
    return {"after": str(page.get("newest", 0))}


def _newest(page: Page) -> str:
    records = page.get("records", [])
    return str(records[0]["at"] if records else page.get("completeSince", ""))


def watch_top(pages: HistoryPages, show: Callable[[Page], None]) -> None:
    """Show the nodes again every few seconds until interrupted. Raises UnreachableError."""
    while True:
        show(pages.top())
        time.sleep(PAUSE)


def _row(one: Mapping[str, Any]) -> Sequence[str | Cell]:
    kind, colour = one["kind"], _COLOURS.get(one["kind"], "")
    if one.get("strategy") == _LABELING:
        kind, colour = "holds" if kind == "violated" else kind, ""
    what = kind + (f" ({one['strategy']})" if "strategy" in one else "")
    names = [*([f"pod {one['pod']}"] if "pod" in one else ()), *_node(one)]
    policy = one.get("policy", "") + (" (observed)" if one.get("mode") == "observe" else "")
    return [
        _moment(one["at"]),
        Cell(what, colour),
        policy,
        " ".join(names),
        _why(one),
    ]


def _node(one: Mapping[str, Any]) -> list[str]:
    return [f"node {one['node']}"] if "node" in one else []


def _why(one: Mapping[str, Any]) -> str:
    parts = []
    if "rule" in one:
        value = one["reading"]
        text = "no reading" if value is None else readable(one["metric"], value, one["limit"])
        origin = f" ({one['cause']})" if one.get("cause") else ""
        parts.append(f"{one['rule']}: {text}{origin}")
    parts += [one["text"]] if "text" in one else []
    parts += [f"({one['why']})"] if one.get("why", "reading") != "reading" else []
    return " ".join(parts)


def _moment(text: str) -> str:
    """Return a time of the evaluator as local time, with the date unless it is today's."""
    try:
        at = datetime.datetime.fromisoformat(text).astimezone()
    except ValueError:
        return "its start"
    today = at.date() == datetime.datetime.now(datetime.UTC).astimezone().date()
    return at.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def _bar(runs: Sequence[Sequence[Any]], columns: int) -> str:
    """Return a row as characters, each with the worst phase of its part."""
    cells = [" "] * _BAR
    order = [" ", *reversed(_MARKS.values())]
    for begin, count, phase in runs:
        first, last = begin * _BAR // columns, (begin + count - 1) * _BAR // columns
        for cell in range(first, last + 1):
            mark = _MARKS.get(phase, " ")
            cells[cell] = max(cells[cell], mark, key=order.index)
    return f"[{''.join(cells)}]"
