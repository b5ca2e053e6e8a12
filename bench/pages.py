"""Latency of kube-scheduler's requests while browsers refresh the evaluator's pages.

A plain TLS socket schedules pods at a fixed rate, filter and prioritize by names for each, and checks every response, while
browsers in another process fetch the pages in turn, as HTML. One JSON line per case: first without browsers, then with ten
that refresh as the pages' script does, then with ten that refresh each second; then, while agents change 1 % of their readings
each second, without browsers and with ten that show live pages. `first_page_ms`: the page that imports and compiles the
templates. `core_percent` and `history_mb`: the evaluator's CPU, and the memory that its history counts. `queued_ms` is the time that the evaluator's threads waited for a CPU: if it is not small, latencies
are the machine's.

    python -P bench/pages.py [--nodes 5000] [--policies 50] [--seconds 10]
"""

import re
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from bench import cases, cluster, commandline, processes, scene, site
from bench.cases import Change
from bench.commandline import Line
from bench.measure import Usage
from bench.scene import Scene, Sizes

BROWSERS = 10
PERIODS = (10.0, 1.0)
"""Seconds between two refreshes of each browser; the first is that of the pages' script."""
_JOIN = 2.0
"""Seconds for the end of all browsers: live ones may wait longer for an event."""
_AIM = "p50_ms <= 2 loops, p99_ms <= 5 loops"
_OFF = Change("no browsers", 0, cases.nothing, _AIM)
_CHANGING = replace(_OFF, name="no browsers, 1 % of readings new each second", change=cases.report)
_LIVE = "{} live browsers, 1 % of readings new each second"
_EVENT = re.compile(r"retry: (?P<retry>\d+)\nid: (?P<id>\S+)\n")


class Fetched(NamedTuple):
    """A page that a browser asked for: seconds and bytes; no bytes if too many clients waited."""

    seconds: float
    size: int


def browse(
    connection: "Connection[Any, Any]", port: int, paths: Sequence[str], period: float
) -> None:
    """Refresh pages until a message arrives, then send the durations. Raises RuntimeError for an error status.

    Without a period, the pages are live: fetched when an event says that they changed.
    """
    fetched: list[Fetched] = []
    ending = threading.Event()
    browsers = [
        threading.Thread(
            target=_refresh if period else _listen,
            args=(port, paths, number, period, fetched, ending),
            daemon=True,
        )
        for number in range(BROWSERS)
    ]
    for browser in browsers:
        browser.start()
    connection.recv()
    ending.set()
    until = time.monotonic() + _JOIN
    for browser in browsers:
        browser.join(max(0.0, until - time.monotonic()))
    while not fetched:  # a busy machine has not drawn the first page yet
        time.sleep(_JOIN / 100)
    connection.send(fetched)


def _refresh(
    port: int,
    paths: Sequence[str],
    number: int,
    period: float,
    fetched: list[Fetched],
    ending: threading.Event,
) -> None:
    """Fetch one of the paths each period; browsers begin at different times."""
    path = paths[number % len(paths)]
    wait = period * number / BROWSERS
    while not ending.wait(wait):
        begun = time.perf_counter()
        size = fetch(port, path)
        took = time.perf_counter() - begun
        fetched.append(Fetched(took, size))
        wait = max(0.0, period - took)


def _listen(
    port: int,
    paths: Sequence[str],
    number: int,
    _period: float,
    fetched: list[Fetched],
    ending: threading.Event,
) -> None:
    """Show a live page, as the pages' script does: fetch it when it changed."""
    path, position = paths[number % len(paths)], ""
    ending.wait(number / BROWSERS)
    while not ending.is_set():
        begun = time.perf_counter()
        size = fetch(port, path)
        fetched.append(Fetched(time.perf_counter() - begun, size))
        position = _changed(port, path, position, ending)


def _changed(port: int, path: str, position: str, ending: threading.Event) -> str:
    """Wait until a page changed, as EventSource does; return the position of the event."""
    while not ending.is_set():
        text = _get(port, path, {"Accept": "text/event-stream", "Last-Event-ID": position})
        if (found := _EVENT.search(text)) is None:
            raise RuntimeError(f"{path}: no event in {text[:200]!r}")
        position = found["id"]
        if "event: change" in text:
            ending.wait(int(found["retry"]) / 1e3)
            break
    return position


def _get(port: int, path: str, headers: dict[str, str]) -> str:
    status, body = site.get(port, path, timeout=60, headers=headers)
    if status != 200:
        raise RuntimeError(f"{path}: {status}")
    return body.decode()


def fetch(port: int, path: str) -> int:
    """Return the size of a page, 0 if it was rejected with 503. Raises RuntimeError if it is none."""
    status, body = site.get(port, path, timeout=30, headers={"Accept": "text/html"})
    if status == 503:
        return 0
    if status != 200 or not body.endswith(b"</html>"):
        raise RuntimeError(f"{path}: {status}")
    return len(body)


def paths(names: Sequence[str]) -> Sequence[str]:
    """Return the pages that browsers show."""
    policy = f"/policies/{cluster.NAMESPACE}/{cluster.POD_POLICY}"
    return (
        "/",
        policy,
        f"{policy}?state=all",
        "/nodes",
        "/nodes?state=all",
        f"/nodes/{names[0]}",
        "/rules",
    )


def measured(nodes: int = 5000, policies: int = 50, seconds: float = 10.0) -> Iterator[Line]:
    """Yield the line of each case."""
    sizes = Sizes(nodes, policies, 0, seconds)
    with scene.steady(sizes, nodes) as around:
        calm = replace(_OFF, count=nodes)
        yield _line(calm, around, {})
        port = around.site.evaluator.ops_port
        begun = time.perf_counter()
        fetch(port, "/")
        first = round(1e3 * (time.perf_counter() - begun), 1)
        for period in PERIODS:
            name = f"{BROWSERS} browsers, each refreshes every {period:g} s"
            spec = (port, paths(around.site.names), period)
            with processes.beside(browse, *spec) as browsers:
                line = _line(replace(calm, name=name), around, {"first_page_ms": first})
                browsers.send("end")
                found: list[Fetched] = browsers.recv()
            yield {**line, **_pages(found)}
    with scene.streaming(sizes, nodes) as around:
        around.site.evaluator.until("/readyz")
        changing = replace(_CHANGING, count=nodes)
        yield _line(changing, around, {})
        around.site.evaluator.until("/readyz")
        spec = (around.site.evaluator.ops_port, paths(around.site.names), 0.0)
        with processes.beside(browse, *spec) as browsers:
            line = _line(replace(changing, name=_LIVE.format(BROWSERS)), around, {})
            browsers.send("end")
            found = browsers.recv()
        yield {**line, **_pages(found)}


def _line(case: Change, around: Scene, more: Line) -> Line:
    pid = around.ours.pid
    before = Usage.of(pid)
    line = case.run(around)
    core = Usage.of(pid).cores_since(before)
    size = around.site.evaluator.metric("plimsoll_history_size_bytes")
    figures = {"core_percent": round(100 * core, 1), "history_mb": round(size / 1e6, 2)}
    return {**line, "benchmark": "pages", **figures, **more}


def _pages(found: Sequence[Fetched]) -> Line:
    times = [one.seconds for one in found if one.size]
    return {
        "pages": len(times),
        "rejected": len(found) - len(times),
        "page_p50_ms": round(1e3 * statistics.median(times), 1) if times else None,
        "page_max_ms": round(1e3 * max(times), 1) if times else None,
        "page_max_bytes": max((one.size for one in found), default=0),
    }


if __name__ == "__main__":
    commandline.run(measured)
