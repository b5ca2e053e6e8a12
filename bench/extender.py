"""What an answer to kube-scheduler costs: latency, CPU and memory of the real evaluator over mutual TLS, beside a yardstick.

The evaluator runs on an API server with nodes of 11 to 12 KB each; a bare TLS socket asks as kube-scheduler's client
does, every answer is checked, and a wrong one fails the benchmark. The same bodies go to a handler that does what anybody
would write first (json.loads, a loop, json.dumps); `cpu_ratio` and `p50_ratio` are its figures divided by ours. One JSON
line a case; times in milliseconds, memory in megabytes (10^6 bytes), CPU is user and system time of the whole process.

    python -P bench/extender.py [--nodes 5000] [--policies 50] [--requests 400] [--seconds 15]
"""

import argparse
import contextlib
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from bench import baseline, cluster, evaluator, measure, nodes, pki, processes, world
from bench.evaluator import Evaluator
from bench.scheduler import Connection, Question, Truth, question
from plimsoll import logs

Line = dict[str, Any]

_WARM_UP = 5
_STEADY = ("--metricsSource=prometheus", "--syncPeriod=10m", "--staleAfter=30m")
"""Readings that stay as they are: asked for once."""
_PODS_PER_SECOND = 50
_SEEN_BY = 40
"""Pods after a step for which the answers have to follow from it."""


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


@dataclass(frozen=True, slots=True)
class Site:
    """An evaluator that is at rest, the yardstick, and a cluster to ask about."""

    sizes: Sizes
    names: Sequence[str]
    evaluator: Evaluator
    baseline: Server
    told: "Pipe[Any, Any]"
    authority: pki.Authority
    scheduler: pki.Pair

    @property
    def ours(self) -> Server:
        """The evaluator's port for kube-scheduler."""
        return Server(self.evaluator.pid, self.evaluator.port)

    def connect(self, server: Server) -> Connection:
        """As kube-scheduler."""
        return Connection(server.port, pki.client_context(self.authority.cert, self.scheduler))

    def ask_about(self, count: int, *, whole: bool = False) -> Truth:
        """A question about so many of the nodes, in no order, and what is right."""
        asked = random.Random(count).sample(range(len(self.names)), count)
        names = [self.names[index] for index in asked]
        objects = None
        if whole:
            objects = [
                json.dumps(nodes.node(self.names[index], index), separators=(",", ":")).encode()
                for index in asked
            ]
        first, second = (cluster.readings(self.names, metric) for metric in cluster.METRICS[:2])
        failing = cluster.violating(first)
        return Truth(question(names, objects), failing, cluster.scores(second, names))


@contextlib.contextmanager
def site(sizes: Sizes, count: int) -> Iterator[Site]:
    """With so many nodes."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority = pki.Authority(folder / "pki")
        told = stack.enter_context(processes.beside(world.run, world.Spec(count, sizes.policies)))
        api, prometheus = told.recv()
        names = cluster.names(count)
        flags = (*_STEADY, f"--prometheusUrl={prometheus}")
        found = stack.enter_context(evaluator.running(folder, authority, api, flags))
        yardstick = _start_baseline(stack, authority, names)
        evaluator.at_rest(found)
        yield Site(sizes, names, found, yardstick, told, authority, authority.scheduler())


def _start_baseline(
    stack: contextlib.ExitStack, authority: pki.Authority, names: Sequence[str]
) -> Server:
    first, second = (cluster.readings(names, metric) for metric in cluster.METRICS[:2])
    failing = dict.fromkeys(cluster.violating(first), f"{cluster.POD_POLICY} is violated")
    spec = baseline.Spec(authority.cert, authority.server(), failing, cluster.scores(second, names))
    pid, port = stack.enter_context(processes.beside(baseline.run, spec)).recv()
    return Server(pid, port)


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

    def run(self, site: Site) -> Line:
        """Ours, and the yardstick's."""
        truth = site.ask_about(self.count, whole=self.whole)
        ours = self._measure(site, site.ours, truth, self.requests)
        site.evaluator.forget_log()
        # The yardstick knows no ranking, and writes JSON in its own way.
        loosely = replace(truth, scores=None, verbatim=False)
        theirs = self._measure(site, site.baseline, loosely, max(3, self.requests // 4))
        return _line(site, self, truth.question, ours) | _beside(ours, theirs)

    def _measure(self, site: Site, server: Server, truth: Truth, requests: int) -> Line:
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(site.connect(server)) for _ in range(self.at_once)]
            rounds = -(-requests // self.at_once)
            for _ in range(min(_WARM_UP, rounds)):
                _ask(connections, self.verb, truth)
            return _figures(
                server,
                lambda: [t for _ in range(rounds) for t in _ask(connections, self.verb, truth)],
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
class Steps:
    """A step each second while pods are scheduled: filter and prioritize for each, so many pods a second.

    Not back to back: a client that waits for a slow answer would ask less just while answers are slow.
    """

    name: str
    count: int
    step: Callable[[Site, Truth, int], None]
    aim: str = ""
    verb: str = "filter and prioritize"

    def run(self, site: Site) -> Line:
        """Ours alone: for the yardstick nothing changes."""
        truth = site.ask_about(self.count)
        with site.connect(site.ours) as connection:
            for verb in ("filter", "prioritize") * _WARM_UP:
                _ask([connection], verb, truth)
            ours = _figures(site.ours, lambda: self._schedule(site, connection, truth))
        site.evaluator.forget_log()
        return _line(site, self, truth.question, ours)

    def _schedule(self, site: Site, connection: Connection, truth: Truth) -> list[float]:
        begin, times, steps = time.perf_counter(), [], 0
        for pod in range(int(site.sizes.seconds * _PODS_PER_SECOND)):
            time.sleep(max(0.0, begin + pod / _PODS_PER_SECOND - time.perf_counter()))
            if pod // _PODS_PER_SECOND >= steps:
                self.step(site, truth, steps)
                steps += 1
            elif pod % _PODS_PER_SECOND == _SEEN_BY:
                truth.holds()
            for verb in ("filter", "prioritize"):
                times += _ask([connection], verb, truth)
        return times


def _edit(site: Site, truth: Truth, step: int) -> None:
    """Give the policy that is asked about another limit."""
    limit = cluster.LIMIT if step % 2 else cluster.OTHER_LIMIT
    site.told.send(world.Edit(0, limit))
    values = cluster.readings(site.names, cluster.METRICS[0])
    truth.becomes(cluster.violating(values, limit))


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


def _line(site: Site, case: "Case | Steps", asked: Question, ours: Line) -> Line:
    return {
        "benchmark": "extender",
        "case": case.name,
        "verb": case.verb,
        "nodes": case.count,
        "policies": site.sizes.policies,
        "request_bytes": len(asked.body),
        **ours,
    }


def _beside(ours: Line, theirs: Line) -> Line:
    ratios = {
        f"{what}_ratio": round(theirs[field] / ours[field], 1)
        for what, field in (("p50", "p50_ms"), ("cpu", "cpu_ms"), ("rss", "peak_rss_mb"))
    }
    return {**ratios, "baseline": theirs}


def cases(sizes: Sizes) -> Mapping[int, Sequence[Case | Steps]]:
    """What is measured, by the size of the cluster."""
    few, many, most = sizes.nodes // 10, sizes.nodes, 3 * sizes.nodes
    often, seldom = sizes.requests, max(3, sizes.requests // 30)
    quick = "p50_ms <= 2, p99_ms <= 5"
    large = "cpu_ms <= 150, cpu_ratio >= 10, peak_rss_mb <= 250"
    return {
        many: [
            *(
                Case(verb, count, often * factor, aim)
                for count, factor, aim in ((few, 3, ""), (many, 1, quick))
                for verb in ("filter", "prioritize")
            ),
            Case("filter", few, often // 4, whole=True),
            Case("filter", many, seldom, large, whole=True),
            Case("filter", many, seldom, "peak_rss_mb <= 450", whole=True, at_once=4),
            # The last one: it leaves the policy edited.
            Steps("names, an edit of the policy each second", many, _edit, quick),
        ],
        most: [Case(verb, most, often, "p99_ms <= 12") for verb in ("filter", "prioritize")],
    }


def measured(sizes: Sizes) -> Iterator[Line]:
    """Each case, when it is done."""
    for count, planned in cases(sizes).items():
        with site(sizes, count) as found:
            for case in planned:
                line = case.run(found)
                yield line | (
                    {"aim": case.aim, "met": measure.met(line, case.aim)} if case.aim else {}
                )


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
