"""What an answer to kube-scheduler costs: latency, CPU and memory of the real evaluator over mutual TLS, beside a yardstick.

The evaluator runs on an API server with nodes of 11 to 12 KB each; a bare TLS socket asks as kube-scheduler's client
does, every answer is checked, and a wrong one fails the benchmark. The same bodies go to a handler that does what anybody
would write first (json.loads, a loop, json.dumps); `cpu_ratio` and `p50_ratio` are its figures divided by ours. One JSON
line a case; times in milliseconds, memory in megabytes (10^6 bytes), CPU is user and system time of the whole process.

    python -P bench/extender.py [--nodes 5000] [--policies 50] [--requests 400] [--seconds 15]
"""

import argparse
import contextlib
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from bench import baseline, cluster, measure, nodes, processes, site, tls, world
from bench.authority import Authority
from bench.fleet import Fleet
from bench.fleetagent import Habits
from bench.scheduler import Connection, Question, Truth, WrongAnswerError, question
from bench.site import Site
from plimsoll import logs

Line = dict[str, Any]

_WARM_UP = 5
_PODS_PER_SECOND = 50
_SEEN_BY = 40
"""Pods after a change for which the answers have to follow from it."""
_NEW_EACH_SECOND = 0.01
"""The share of all readings."""
_TRIES = 10
_POLICY = f"{cluster.NAMESPACE}/{cluster.POD_POLICY}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    nodes: int
    policies: int
    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Server:
    """Somebody to ask."""

    pid: int
    port: int
    authority: Authority

    def connect(self) -> Connection:
        """As kube-scheduler."""
        return Connection(self.port, tls.client_context(self.authority))


@dataclass(frozen=True, slots=True)
class Scene:
    """Who answers: the evaluator and, where readings stay as they are, the yardstick."""

    site: Site
    sizes: Sizes
    ours: Server
    baseline: Server
    fleet: Fleet | None = None

    def ask_about(self, count: int, *, whole: bool = False) -> Truth:
        """A question about so many of the nodes, in no order, and what is right by the readings of the beginning."""
        everyone = self.site.names
        asked = random.Random(count).sample(range(len(everyone)), count)
        names = [everyone[index] for index in asked]
        objects = [_json(nodes.node(everyone[i], i)) for i in asked] if whole else None
        first, second = (cluster.readings(everyone, metric) for metric in cluster.METRICS[:2])
        about = question(names, objects)
        return Truth(about, cluster.violating(first), cluster.scores(second, names))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@contextlib.contextmanager
def _steady(sizes: Sizes, count: int) -> Iterator[Scene]:
    with site.steady(count, sizes.policies) as found:
        first, second = (cluster.readings(found.names, metric) for metric in cluster.METRICS[:2])
        failing = dict.fromkeys(cluster.violating(first), f"{cluster.POD_POLICY} is violated")
        scores = cluster.scores(second, found.names)
        spec = baseline.Spec(found.authority, failing, scores)
        with processes.beside(baseline.run, spec) as told:
            ours = Server(found.evaluator.pid, found.evaluator.port, found.authority)
            pid, port = told.recv()
            yield Scene(found, sizes, ours, Server(pid, port, found.authority))


@contextlib.contextmanager
def _streaming(sizes: Sizes, count: int) -> Iterator[Scene]:
    with site.streaming(count, sizes.policies) as (found, fleet):
        ours = Server(found.evaluator.pid, found.evaluator.port, found.authority)
        yield Scene(found, sizes, ours, ours, fleet)


@dataclass(frozen=True, slots=True)
class Case:
    """The same request again and again, back to back, on as many connections at once as are asked for."""

    verb: str
    count: int
    requests: int
    aim: str = ""
    whole: bool = False
    at_once: int = 1

    @property
    def name(self) -> str:
        """Which it is."""
        form = "whole nodes" if self.whole else "names"
        return f"{form}, {self.at_once} at once" if self.at_once > 1 else form

    def run(self, scene: Scene) -> Line:
        """Ours, and the yardstick's."""
        truth = scene.ask_about(self.count, whole=self.whole)
        ours = self._measure(scene.ours, truth, self.requests)
        scene.site.evaluator.forget_log()
        # The yardstick knows no ranking, and writes JSON in its own way.
        loosely = replace(truth, scores=None, verbatim=False)
        theirs = self._measure(scene.baseline, loosely, max(3, self.requests // 4))
        return _line(scene, self, truth.question, ours) | _beside(ours, theirs)

    def _measure(self, server: Server, truth: Truth, requests: int) -> Line:
        rounds = -(-requests // self.at_once)
        with contextlib.ExitStack() as stack:
            open_ = [stack.enter_context(server.connect()) for _ in range(self.at_once)]
            for _ in range(min(_WARM_UP, rounds)):
                _ask(open_, self.verb, truth)
            return _figures(
                server, lambda: [t for _ in range(rounds) for t in _ask(open_, self.verb, truth)]
            )


def _ask(connections: Sequence[Connection], verb: str, truth: Truth) -> list[float]:
    """One request on each connection, at the same time; seconds until each answer. Raises WrongAnswerError."""
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
    """Something changes each second while pods are scheduled: filter and prioritize for each, so many pods a second.

    Not back to back: a client that waits for a slow answer would ask less just while answers are slow.
    """

    name: str
    count: int
    change: Callable[[Scene, Truth, int], None]
    aim: str = ""
    after: Callable[[Scene, Connection, Question], None] = lambda *_: None
    """What has to be seen in the end."""
    verb: str = "filter and prioritize"

    def run(self, scene: Scene) -> Line:
        """Ours alone: for the yardstick nothing changes."""
        truth = scene.ask_about(self.count)
        with scene.ours.connect() as connection:
            ours = _figures(scene.ours, lambda: self._schedule(scene, connection, truth))
            self.after(scene, connection, truth.question)
        scene.site.evaluator.forget_log()
        return _line(scene, self, truth.question, ours)

    def _schedule(self, scene: Scene, connection: Connection, truth: Truth) -> list[float]:
        begin, times = time.perf_counter(), list[float]()
        for pod in itertools.count():
            due, now = pod / _PODS_PER_SECOND, time.perf_counter() - begin
            if max(due, now) > scene.sizes.seconds:
                break
            time.sleep(max(0.0, due - now))
            second, place = divmod(pod, _PODS_PER_SECOND)
            if place == 0:
                self.change(scene, truth, second)
            elif place == _SEEN_BY:
                truth.holds()
            for verb in ("filter", "prioritize"):
                times += _ask([connection], verb, truth)
        return times


def _edit(scene: Scene, truth: Truth, second: int) -> None:
    """Give the policy that is asked about another limit."""
    limit = cluster.LIMIT if second % 2 else cluster.OTHER_LIMIT
    scene.site.world.send(world.Edit(0, limit))
    values = cluster.readings(scene.site.names, cluster.METRICS[0])
    truth.becomes(cluster.violating(values, limit))


def _report(scene: Scene, truth: Truth, second: int) -> None:
    """Have the agents report from now on so that one reading in a hundred is another after each second."""
    assert scene.fleet is not None
    if second == 0:
        interval = scene.fleet.habits.interval
        scene.fleet.habits = Habits(interval, share=interval * _NEW_EACH_SECOND)
        truth.unknown()


def _follow_readings(scene: Scene, connection: Connection, asked: Question) -> None:
    """Once nothing is new, the answers have to be what follows from the readings. Raises WrongAnswerError."""
    assert scene.fleet is not None
    scene.fleet.habits = Habits(scene.fleet.habits.interval, share=0.0)
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


def _figures(server: Server, drive: Callable[[], list[float]]) -> Line:
    """Drive a server, and say what it took; `drive` returns the seconds of each request."""
    measure.forget_peak(server.pid)
    cpu = measure.cpu_seconds(server.pid)
    times = drive()
    used = measure.cpu_seconds(server.pid) - cpu
    return {
        "requests": len(times),
        "p50_ms": round(1000 * statistics.median(times), 3),
        "p99_ms": round(1000 * measure.percentile(times, 0.99), 3),
        "max_ms": round(1000 * max(times), 3),
        "cpu_ms": round(1000 * used / len(times), 3),
        "peak_rss_mb": round(measure.memory_mb(server.pid, "VmHWM"), 1),
    }


def _line(scene: Scene, case: "Case | Change", asked: Question, ours: Line) -> Line:
    return {
        "benchmark": "extender",
        "case": case.name,
        "verb": case.verb,
        "nodes": case.count,
        "policies": scene.sizes.policies,
        "request_bytes": len(asked.body),
        **ours,
    }


def _beside(ours: Line, theirs: Line) -> Line:
    ratios = {
        f"{what}_ratio": round(theirs[field] / ours[field], 1)
        for what, field in (("p50", "p50_ms"), ("cpu", "cpu_ms"), ("rss", "peak_rss_mb"))
    }
    return {**ratios, "baseline": theirs}


@dataclass(frozen=True, slots=True)
class Act:
    """A scene, the number of its nodes, and what is measured there, in this order."""

    scene: Callable[[Sizes, int], contextlib.AbstractContextManager[Scene]]
    nodes: int
    cases: Sequence[Case | Change]


def acts(sizes: Sizes) -> Sequence[Act]:
    """Everything, by the scene that it needs."""
    few, many, most = sizes.nodes // 10, sizes.nodes, 3 * sizes.nodes
    often, seldom = sizes.requests, max(3, sizes.requests // 30)
    verbs = ("filter", "prioritize")
    quick = "p50_ms <= 2, p99_ms <= 5"
    lean = "cpu_ms <= 150, cpu_ratio >= 10, peak_rss_mb <= 250"
    editing = Change("names, an edit of the policy each second", many, _edit, quick)
    reporting = Change(
        "names, 1 % of the readings new each second", many, _report, quick, _follow_readings
    )
    return (
        Act(
            _steady,
            many,
            (
                *(Case(verb, few, 3 * often) for verb in verbs),
                *(Case(verb, many, often, quick) for verb in verbs),
                Case("filter", few, often // 4, whole=True),
                Case("filter", many, seldom, lean, whole=True),
                Case("filter", many, seldom, "peak_rss_mb <= 450", whole=True, at_once=4),
                editing,  # the last one: it leaves the policy edited
            ),
        ),
        Act(_streaming, many, (reporting,)),
        Act(_steady, most, tuple(Case(verb, most, often, "p99_ms <= 12") for verb in verbs)),
    )


def measured(sizes: Sizes) -> Iterator[Line]:
    """Each case, when it is done."""
    for act in acts(sizes):
        with act.scene(sizes, act.nodes) as scene:
            for case in act.cases:
                yield measure.judged(case.run(scene), case.aim)


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=5000, help="how many (default 5000)")
    parser.add_argument("--policies", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--requests", type=int, default=400, help="per case (default 400)")
    parser.add_argument(
        "--seconds", type=float, default=15, help="of cases in which something changes (default 15)"
    )
    given = parser.parse_args()
    logs.setup("error")
    for line in measured(Sizes(given.nodes, given.policies, given.requests, given.seconds)):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
