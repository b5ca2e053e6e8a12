"""Latency, CPU and memory of the evaluator, serving kube-scheduler over mutual TLS and idle.

The evaluator runs on an API server with nodes of 11 to 12 KB each. A plain TLS socket sends requests like
kube-scheduler's client; every response is checked, and a wrong one fails the benchmark. The same bodies go to the baseline
handler (json.loads, a loop, json.dumps); `cpu_ratio`, `p50_ratio` and `rss_ratio` are its figures divided by the
evaluator's. One JSON line per case; times in milliseconds, memory in megabytes (10^6 bytes), CPU is user and system time of
the whole process. `queued_ms` is the time its threads waited for a CPU: if it is not small, latencies are the machine's.

    python -P bench/extender.py [--nodes 5000] [--policies 50] [--requests 400] [--seconds 10]
"""

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from bench import cluster, commandline, measure, scene, world
from bench.commandline import Line
from bench.scene import Scene, Server, Sizes
from bench.scheduler import Connection, Question, Truth, WrongAnswerError

_WARM_UP = 5
"""Maximum number of warm-up rounds."""
_LONGEST = 20.0
"""Seconds after which a case ends, whatever its number of requests."""
_SEEN_BY = 0.8
"""Seconds after a change from which responses must reflect it."""
_NEW_EACH_SECOND = 0.01
"""The share of readings that change."""
_TRIES = 10
_POLICY = f"{cluster.NAMESPACE}/{cluster.POD_POLICY}"


class Case(Protocol):
    """A case prints one line."""

    @property
    def name(self) -> str:
        """Return the name of the case."""
        ...

    @property
    def aim(self) -> str:
        """The expected bounds of the figures, or empty; see measure.judged."""
        ...

    def run(self, around: Scene) -> Line:
        """Measure and return the line."""
        ...


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repeats one request back to back, on several connections at once."""

    verb: str
    count: int
    requests: int
    aim: str = ""
    whole: bool = False
    at_once: int = 1

    @property
    def name(self) -> str:
        """Return the name of the case."""
        form = "whole nodes" if self.whole else "names"
        return f"{form}, {self.at_once} at once" if self.at_once > 1 else form

    def run(self, around: Scene) -> Line:
        """Measure the evaluator and the baseline."""
        truth = around.ask_about(self.count, whole=self.whole)
        ours = self._measure(around.ours, truth, self.requests)
        around.site.evaluator.forget_log()
        # The baseline has no ranking, and formats JSON differently.
        loosely = replace(truth, scores=None, verbatim=False)
        theirs = self._measure(around.baseline, loosely, max(3, self.requests // 4))
        return {**_line(around, self, truth.question, ours), **_beside(ours, theirs)}

    def _measure(self, server: Server, truth: Truth, requests: int) -> Line:
        with contextlib.ExitStack() as stack:
            open_ = [stack.enter_context(server.connect()) for _ in range(self.at_once)]
            for _ in range(min(_WARM_UP, 1 + requests // (4 * self.at_once))):
                _ask(open_, self.verb, truth)
            return _figures(server, lambda: list(self._times(open_, truth, requests)))

    def _times(
        self, connections: Sequence[Connection], truth: Truth, requests: int
    ) -> Iterator[float]:
        until = time.monotonic() + _LONGEST
        for _ in range(0, requests, self.at_once):
            yield from _ask(connections, self.verb, truth)
            if time.monotonic() > until:
                break


def _ask(connections: Sequence[Connection], verb: str, truth: Truth) -> list[float]:
    """Send one request on each connection concurrently. Returns the latencies in seconds. Raises WrongAnswerError."""
    if len(connections) == 1:
        replies = [connections[0].post(verb, truth.question.body)]
    else:
        with ThreadPoolExecutor(len(connections)) as pool:
            asked = [pool.submit(one.post, verb, truth.question.body) for one in connections]
            replies = [one.result() for one in asked]
    for reply in replies:
        truth.check(verb, reply)
    return [reply.seconds for reply in replies]


@dataclass(frozen=True, slots=True)
class Change:
    """Schedules pods at a fixed rate, filter and prioritize for each, while something changes each second.

    The rate is fixed: a client that waits for slow responses would send fewer requests while they are slow.
    """

    name: str
    count: int
    change: Callable[[Scene, Truth, int], None]
    aim: str = ""
    pods: int = 50
    """Pods per second."""
    after: Callable[[Scene, Connection, Question], None] = lambda *_: None
    """The final check of the responses."""
    verb: str = "filter and prioritize"

    def run(self, around: Scene) -> Line:
        """Measure the evaluator only, since the baseline does not change."""
        truth = around.ask_about(self.count)
        with around.ours.connect() as connection:
            ours = _figures(around.ours, lambda: self._schedule(around, connection, truth))
            self.after(around, connection, truth.question)
        around.site.evaluator.forget_log()
        return _line(around, self, truth.question, ours)

    def _schedule(self, around: Scene, connection: Connection, truth: Truth) -> list[float]:
        begin, times = time.perf_counter(), list[float]()
        for pod in itertools.count():
            due, now = pod / self.pods, time.perf_counter() - begin
            if max(due, now) > around.sizes.seconds:
                break
            time.sleep(max(0.0, due - now))
            second, place = divmod(pod, self.pods)
            if place == 0:
                self.change(around, truth, second)
            elif place == int(_SEEN_BY * self.pods):
                truth.holds()
            for verb in ("filter", "prioritize"):
                times += _ask([connection], verb, truth)
        return times


def nothing(around: Scene, truth: Truth, second: int) -> None:
    """Change nothing: the reference for the others, since CPU caches are cold between pods."""


def edit(around: Scene, truth: Truth, second: int) -> None:
    """Change the limit of the requested policy."""
    limit = cluster.LIMIT if second % 2 else cluster.OTHER_LIMIT
    around.site.world.send(world.Edit(0, limit))
    values = cluster.readings(around.site.names, cluster.METRICS[0])
    truth.becomes(cluster.violating(values, limit))


def report(around: Scene, truth: Truth, second: int) -> None:
    """Make agents change one reading in a hundred each second."""
    assert around.fleet is not None
    if second == 0:
        around.fleet.share = around.fleet.interval * _NEW_EACH_SECOND
        truth.unknown()


def follow_readings(around: Scene, connection: Connection, asked: Question) -> None:
    """Stop changes, and check responses against the final readings. Raises WrongAnswerError."""
    assert around.fleet is not None
    around.fleet.share = 0.0
    for patience in reversed(range(_TRIES)):
        found = json.loads(around.site.evaluator.get(f"/explain/{_POLICY}")[1])["nodes"]
        first, second = (
            {node: one["readings"][metric]["value"] for node, one in found.items()}
            for metric in cluster.METRICS[:2]
        )
        truth = Truth(asked, cluster.violating(first), cluster.scores(second, asked.names))
        try:
            for verb in ("filter", "prioritize"):
                _ask([connection], verb, truth)
        except WrongAnswerError:
            if not patience:
                raise
            time.sleep(1.0)
        else:
            return


@dataclass(frozen=True, slots=True)
class Rest:
    """No requests; agents report with this share of readings changed. CPU is in percent of one core."""

    share: float
    aim: str = ""

    @property
    def name(self) -> str:
        """Return the name of the case."""
        return f"idle, {self.share:.0%} of each report is new"

    def run(self, around: Scene) -> Line:
        """Measure for the same time as a Change case."""
        assert around.fleet is not None
        fleet, seconds = around.fleet, around.sizes.seconds
        fleet.share = self.share
        before, begin = self._counts(around), time.perf_counter()
        time.sleep(seconds)
        took = time.perf_counter() - begin
        cpu, reports, decided, lost = (
            now - then for now, then in zip(self._counts(around), before, strict=True)
        )
        return {
            "benchmark": "extender",
            "case": self.name,
            "nodes": len(around.site.names),
            "policies": around.sizes.policies,
            "connected": fleet.connected,
            "reports_per_s": round(reports / took, 1),
            "decisions_per_s": round(decided / took, 1),
            "core_percent": round(100 * cpu / took, 1),
            "rss_mb": round(measure.memory_mb(around.ours.pid), 1),
            "lost_streams": int(lost),
            "aim": self.aim,
        }

    @staticmethod
    def _counts(around: Scene) -> tuple[float, ...]:
        assert around.fleet is not None
        decided = around.site.evaluator.metric("plimsoll_decide_duration_seconds_count")
        cpu = measure.cpu_seconds(around.ours.pid)
        return cpu, around.fleet.reports, decided, around.fleet.losses


def _figures(server: Server, drive: Callable[[], list[float]]) -> Line:
    """Call `drive`, which returns the latencies in seconds, and return the figures of the server's process."""
    measure.forget_peak(server.pid)
    cpu, queued = measure.cpu_seconds(server.pid), measure.queued_seconds(server.pid)
    times = drive()
    cpu = measure.cpu_seconds(server.pid) - cpu
    queued = measure.queued_seconds(server.pid) - queued
    return {
        "requests": len(times),
        **measure.latencies(times, 3),
        "cpu_ms": round(1000 * cpu / len(times), 3),
        "queued_ms": round(1000 * queued / len(times), 3),
        "peak_rss_mb": round(measure.memory_mb(server.pid, "VmHWM"), 1),
    }


def _line(around: Scene, case: "Repeat | Change", asked: Question, ours: Line) -> Line:
    return {
        "benchmark": "extender",
        "case": case.name,
        "verb": case.verb,
        "nodes": case.count,
        "policies": around.sizes.policies,
        "request_bytes": len(asked.body),
        **ours,
        "aim": case.aim,
    }


def _beside(ours: Line, theirs: Line) -> Line:
    ratios = {
        f"{what}_ratio": round(theirs[field] / ours[field], 1)
        for what, field in (("p50", "p50_ms"), ("cpu", "cpu_ms"), ("rss", "peak_rss_mb"))
    }
    return {**ratios, "baseline": theirs}


@dataclass(frozen=True, slots=True)
class Act:
    """A scene, its number of nodes, and its cases in order."""

    scene: Callable[[Sizes, int], contextlib.AbstractContextManager[Scene]]
    nodes: int
    cases: Sequence[Case]


def acts(sizes: Sizes) -> Sequence[Act]:
    """Return all cases, grouped by scene."""
    few, many, most = sizes.nodes // 10, sizes.nodes, 3 * sizes.nodes
    often, seldom = sizes.requests, max(3, sizes.requests // 30)
    verbs = ("filter", "prioritize")
    quick = "p50_ms <= 2 loops, p99_ms <= 5 loops"
    lean = "cpu_ratio >= 12, rss_ratio >= 3"
    calm = Change("names, 50 pods a second, nothing changes", many, nothing, quick)
    edited = "names, {} pods a second, an edit of the policy each second"
    editing = [Change(edited.format(pods), many, edit, quick, pods=pods) for pods in (50, 200)]
    reported = "names, {} pods a second, 1 % of the readings new each second"
    reporting = [
        Change(reported.format(pods), many, report, quick, pods=pods, after=follow_readings)
        for pods in (50, 200)
    ]
    idle = "core_percent <= 15 loops, rss_mb <= 600"
    return (
        Act(
            scene.steady,
            many,
            (
                *(Repeat(verb, few, 3 * often) for verb in verbs),
                *(Repeat(verb, many, often, quick) for verb in verbs),
                Repeat("filter", few, often // 4, whole=True),
                Repeat("filter", many, seldom, lean, whole=True),
                Repeat("filter", many, seldom, "rss_ratio >= 3", whole=True, at_once=4),
                calm,
                *editing,  # last, since they leave the policy edited
            ),
        ),
        Act(scene.streaming, many, (Rest(0.0, idle), Rest(0.01), Rest(1.0), *reporting)),
        Act(
            scene.steady,
            most,
            tuple(Repeat(verb, most, often, "p99_ms <= 12 loops") for verb in verbs),
        ),
    )


def measured(
    nodes: int = 5000, policies: int = 50, requests: int = 400, seconds: float = 10.0
) -> Iterator[Line]:
    """Yield the line of each case. `seconds`: of those in which time passes."""
    sizes = Sizes(nodes, policies, requests, seconds)
    for act in acts(sizes):
        with act.scene(sizes, act.nodes) as around:
            for case in act.cases:
                yield case.run(around)


if __name__ == "__main__":
    commandline.run(measured)
