"""Latency of kube-scheduler's requests while browsers refresh the evaluator's pages.

A plain TLS socket schedules pods at a fixed rate, filter and prioritize by names for each, and checks every response, while
ten clients in another process show pages. One JSON line per case: first without clients, then with ten that fetch pages
anew, without the pages' script; then, while agents change 1 % of their readings each second, in `--rounds` pairs, without
clients and with ten that show live pages: they read events and fetch pages as the script does, and do nothing else, like
browsers on other machines. `--chromium` adds ten tabs of Chromium to each round, which take CPU of this machine.

`first_page_ms`: the page that imports and compiles the templates. `core_percent`: CPU of the evaluator, `clients_percent`
that of the clients, in percent of a core. `history_mb`: memory that the history counts. `queued_ms` is the time that the
evaluator's threads waited for a CPU: if it is not small, latencies are the machine's.

    python -P bench/pages.py [--nodes 5000] [--policies 50] [--seconds 10] [--rounds 1] [--chromium]
"""

import contextlib
import multiprocessing
import re
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from bench import cases, cluster, commandline, processes, scene, site
from bench.cases import Change
from bench.commandline import Line
from bench.measure import Usage, cpu_seconds
from bench.scene import Scene, Sizes

BROWSERS = 10
PERIODS = (10.0, 1.0)
"""Seconds between two refreshes of each browser."""
REFRESH = 10.0
"""Seconds after which the pages' script refreshes a page that did not change."""
_JOIN = 2.0
"""Seconds for the end of all browsers: live ones may wait longer for an event."""
_AIM = "p50_ms <= 2 loops, p99_ms <= 5 loops"
_OFF = Change("no browsers", 0, cases.nothing, _AIM)
_CHANGING = replace(_OFF, name="no browsers, 1 % of readings new each second", change=cases.report)
_LIVE = "{} live {}, 1 % of readings new each second"
_LIVE_FROM = re.compile(r'data-live="(?P<id>[^"]+)"')
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
    while not fetched:  # a busy machine has not drawn the first page yet
        time.sleep(_JOIN / 100)
    connection.send("shown")
    connection.recv()
    ending.set()
    until = time.monotonic() + _JOIN
    for browser in browsers:
        browser.join(max(0.0, until - time.monotonic()))
    connection.send(fetched)


def show_in_chromium(
    connection: "Connection[Any, Any]", port: int, paths: Sequence[str], _period: float
) -> None:
    """Show pages in tabs of Chromium until a message arrives, then send what they fetched."""
    from playwright.sync_api import sync_playwright

    fetched: list[Fetched] = []

    def note(response: Any) -> None:
        if response.request.resource_type in {"document", "fetch"}:
            took = response.request.timing["responseStart"] / 1e3
            fetched.append(Fetched(took, int(response.headers["content-length"])))

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for number in range(BROWSERS):
            tab = browser.new_context().new_page()
            tab.on("response", note)
            tab.goto(f"http://127.0.0.1:{port}{paths[number % len(paths)]}", timeout=60_000)
        connection.send("shown")
        while not connection.poll():
            tab.wait_for_timeout(100)  # events are handled meanwhile
        connection.recv()
        browser.close()
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
    """Show a live page, as the pages' script does: fetch it when it changed, or after a while."""
    path, seen, wait = paths[number % len(paths)], "", number / BROWSERS
    ending.wait(wait)
    while not ending.is_set():
        begun = time.perf_counter()
        page = _get(port, path, {"Accept": "text/html", **known(seen)})
        fetched.append(Fetched(time.perf_counter() - begun, len(page)))
        position, until = live_from(page), begun + REFRESH
        ending.wait(begun + wait - time.perf_counter())
        seen, wait = _changed(port, path, seen or position, until, ending)


def live_from(page: str) -> str:
    """Return the position of what a live page shows. Raises RuntimeError if the page is not live."""
    if (found := _LIVE_FROM.search(page)) is None:
        raise RuntimeError(f"a page that is not live: {page[:200]!r}")
    return found["id"]


def event(text: str) -> tuple[str, float, bool]:
    """Return the position of an event, the seconds until the next question, and whether the page changed. Raises RuntimeError."""
    if (found := _EVENT.search(text)) is None:
        raise RuntimeError(f"no event in {text[:200]!r}")
    return found["id"], int(found["retry"]) / 1e3, "event: change" in text


def known(seen: str) -> dict[str, str]:
    """Return the header of a request that begins after a position."""
    return {"last-event-id": seen} if seen else {}


def _changed(
    port: int, path: str, seen: str, until: float, ending: threading.Event
) -> tuple[str, float]:
    """Wait until a page changed or is refreshed, as EventSource does; return the last position, and seconds until the next question."""
    wait = 0.0
    while not ending.is_set() and time.perf_counter() < until:
        text = _get(port, path, {"Accept": "text/event-stream", **known(seen)})
        seen, wait, changed = event(text)
        if changed:
            break
        ending.wait(wait)
    return seen, wait


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


def measured(
    nodes: int = 5000,
    policies: int = 50,
    seconds: float = 10.0,
    rounds: int = 1,
    chromium: bool = False,
) -> Iterator[Line]:
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
            line = _beside(browse, period, replace(calm, name=name), around)
            yield {**line, "first_page_ms": first}
    shown: dict[str, Callable[..., None]] = {"browsers": browse}
    if chromium:
        shown["tabs of Chromium"] = show_in_chromium
    with scene.streaming(sizes, nodes) as around:
        changing = replace(_CHANGING, count=nodes)
        for _ in range(rounds):
            around.site.evaluator.until("/readyz")
            yield _line(changing, around, {})
            for clients, show in shown.items():
                around.site.evaluator.until("/readyz")
                name = _LIVE.format(BROWSERS, clients)
                yield _beside(show, 0.0, replace(changing, name=name), around)


def _beside(show: Callable[..., None], period: float, case: Change, around: Scene) -> Line:
    """Measure a case while clients show pages."""
    before = set(multiprocessing.active_children())
    spec = (around.site.evaluator.ops_port, paths(around.site.names), period)
    with processes.beside(show, *spec) as clients:
        clients.recv()
        (process,) = set(multiprocessing.active_children()) - before
        begun, spent = time.monotonic(), _of_tree(process.pid or 0)
        line = _line(case, around, {})
        spent = (_of_tree(process.pid or 0) - spent) / (time.monotonic() - begun)
        clients.send("end")
        found: list[Fetched] = clients.recv()
    return {**line, "clients_percent": round(100 * spent, 1), **_pages(found)}


def _of_tree(pid: int) -> float:
    """Return the CPU time of a process and those below it, in seconds."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    total, pids = 0.0, [pid]
    while pids:
        one = pids.pop()
        pids += parents.get(one, [])
        with contextlib.suppress(OSError):
            total += cpu_seconds(one)
    return total


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
