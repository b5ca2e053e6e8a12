"""The cases of bench/extender.py: repeated requests, pods while something changes, and an idle evaluator."""

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bench import cluster, measure, world
from bench.measure import Usage
from bench.scene import Scene, Server
from bench.scheduler import Connection, Question, Truth, WrongAnswerError

Line = dict[str, Any]

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

    def run(self, scene: Scene) -> Line:
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

    def run(self, scene: Scene) -> Line:
        """Measure the evaluator and the baseline."""
        truth = scene.ask_about(self.count, whole=self.whole)
        ours = self._measure(scene.ours, truth, self.requests)
        scene.site.evaluator.forget_log()
        # The baseline has no ranking, and formats JSON differently.
        loosely = replace(truth, scores=None, verbatim=False)
        theirs = self._measure(scene.baseline, loosely, max(3, self.requests // 4))
        return _line(scene, self, truth.question, ours) | _beside(ours, theirs)

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

    def run(self, scene: Scene) -> Line:
        """Measure the evaluator only, since the baseline does not change."""
        truth = scene.ask_about(self.count)
        with scene.ours.connect() as connection:
            ours = _figures(scene.ours, lambda: self._schedule(scene, connection, truth))
            self.after(scene, connection, truth.question)
        scene.site.evaluator.forget_log()
        return _line(scene, self, truth.question, ours)

    def _schedule(self, scene: Scene, connection: Connection, truth: Truth) -> list[float]:
        begin, times = time.perf_counter(), list[float]()
        for pod in itertools.count():
            due, now = pod / self.pods, time.perf_counter() - begin
            if max(due, now) > scene.sizes.seconds:
                break
            time.sleep(max(0.0, due - now))
            second, place = divmod(pod, self.pods)
            if place == 0:
                self.change(scene, truth, second)
            elif place == int(_SEEN_BY * self.pods):
                truth.holds()
            for verb in ("filter", "prioritize"):
                times += _ask([connection], verb, truth)
        return times


def nothing(scene: Scene, truth: Truth, second: int) -> None:
    """Change nothing: the reference for the others, since CPU caches are cold between pods."""


def edit(scene: Scene, truth: Truth, second: int) -> None:
    """Change the limit of the requested policy."""
    limit = cluster.LIMIT if second % 2 else cluster.OTHER_LIMIT
    scene.site.world.send(world.Edit(0, limit))
    values = cluster.readings(scene.site.names, cluster.METRICS[0])
    truth.becomes(cluster.violating(values, limit))


def report(scene: Scene, truth: Truth, second: int) -> None:
    """Make agents change one reading in a hundred each second."""
    assert scene.fleet is not None
    if second == 0:
        interval = scene.fleet.habits.interval
        scene.fleet.habits = scene.fleet.habits._replace(share=interval * _NEW_EACH_SECOND)
        truth.unknown()


def follow_readings(scene: Scene, connection: Connection, asked: Question) -> None:
    """Stop changes, and check responses against the final readings. Raises WrongAnswerError."""
    assert scene.fleet is not None
    scene.fleet.habits = scene.fleet.habits._replace(share=0.0)
    for patience in reversed(range(_TRIES)):
        found = json.loads(scene.site.evaluator.get(f"/explain/{_POLICY}")[1])["nodes"]
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

    def run(self, scene: Scene) -> Line:
        """Measure for the same time as a Change case."""
        assert scene.fleet is not None
        fleet, seconds = scene.fleet, scene.sizes.seconds
        fleet.habits = fleet.habits._replace(share=self.share)
        time.sleep(min(1.0, seconds))  # until reports are spread evenly again
        before, begin = self._counts(scene), time.perf_counter()
        time.sleep(seconds)
        took = time.perf_counter() - begin
        cpu, reports, decided, lost = (
            now - then for now, then in zip(self._counts(scene), before, strict=True)
        )
        return {
            "benchmark": "extender",
            "case": self.name,
            "nodes": len(scene.site.names),
            "policies": scene.sizes.policies,
            "connected": fleet.connected,
            "reports_per_s": round(reports / took, 1),
            "decisions_per_s": round(decided / took, 1),
            "core_percent": round(100 * cpu / took, 1),
            "rss_mb": round(measure.memory_mb(scene.ours.pid), 1),
            "lost_streams": int(lost),
            "aim": self.aim,
        }

    @staticmethod
    def _counts(scene: Scene) -> tuple[float, ...]:
        assert scene.fleet is not None
        decided = scene.site.evaluator.metric("plimsoll_decide_duration_seconds_count")
        cpu = measure.cpu_seconds(scene.ours.pid)
        return cpu, scene.fleet.reports, decided, scene.fleet.losses


def _figures(server: Server, drive: Callable[[], list[float]]) -> Line:
    """Call `drive`, which returns the latencies in seconds, and return the figures of the server's process."""
    measure.forget_peak(server.pid)
    before = Usage.of(server.pid)
    times = drive()
    after = Usage.of(server.pid)
    return {
        "requests": len(times),
        **measure.latencies(times, 3),
        **after.of_each(before, len(times)),
        "peak_rss_mb": round(after.peak, 1),
    }


def _line(scene: Scene, case: "Repeat | Change", asked: Question, ours: Line) -> Line:
    return {
        "benchmark": "extender",
        "case": case.name,
        "verb": case.verb,
        "nodes": case.count,
        "policies": scene.sizes.policies,
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
