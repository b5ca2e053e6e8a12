"""Latency of kube-scheduler's requests while ten live browsers show pages, as on a machine that does nothing else.

Runs the decision loop, the extender's verbs, the history and the pages in this process, without network, agents and writers.
Its event loop's time is its own CPU time, and the time that it waits, so other processes do not disturb the latencies, and
the browsers take no CPU. 500 nodes report each second, 1 % of all readings are new; 50 pods are scheduled each second, filter
and prioritize by names for each. One JSON line per round: `ratio_p50` and `ratio_p99` compare with browsers to without.

    python -P bench/browsing.py [--nodes 5000] [--policies 50] [--seconds 20] [--rounds 5]
"""

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

from bench import cluster, commandline, measure, pages, timing
from bench.commandline import Line
from bench.scheduler import question
from bench.stalls import Bench
from evaluator.core.metrics import Metrics
from evaluator.core.policy.parse import parse
from evaluator.features.extender.policies import ExtenderMetrics, PolicyVerbs
from plimsoll.http.types import Parts, Request
from plimsoll.process import garbage
from wire.codec import Delta

_PODS, _REPORTS = 50, 500
"""Each second."""
_NEW = 0.1
"""The share of readings that are new in a report: each node reports every ten seconds."""
_READS = 3
"""Turns of the event loop until a request is received."""


class Browsing:
    """The evaluator, its agents, kube-scheduler and browsers."""

    def __init__(self, nodes: int, policies: int) -> None:
        sizes = {"nodes": nodes, "metrics": len(cluster.METRICS), "policies": policies, "rules": 1}
        objects = cluster.policies(policies)
        for number, one in enumerate(objects):
            one["metadata"]["uid"] = str(number)
        clock = time.monotonic  # of the event loop
        self._bench = Bench(sizes, 0.0, [parse(one) for one in objects], clock)
        self._rng = np.random.default_rng(1)
        metrics = ExtenderMetrics(Metrics().registry)
        self._verbs = PolicyVerbs(self._bench.decider.current, metrics, clock=clock).routes.routes
        asked = random.Random(1).sample(self._bench.names, nodes)
        self._body = question(asked).body
        self._latencies: list[float] = []
        self._drawn = 0

    async def rounds(self, seconds: float, count: int) -> AsyncIterator[Line]:
        """Yield the line of each round."""
        bench = self._bench
        garbage.raise_thresholds()
        tasks = [asyncio.create_task(one) for one in (bench.decider.run(), bench.past.sample())]
        bench.decider.touch()
        await asyncio.sleep(1.0)  # metrics are known
        readings = {metric: cluster.readings(bench.names, metric) for metric in cluster.METRICS}
        for name in bench.names:
            first = {metric: readings[metric][name] for metric in cluster.METRICS}
            bench.store.report(name, Delta(first), time.monotonic())
        bench.decider.touch()
        await asyncio.sleep(3.0)
        for path in self._paths():
            await self._get(path, {"accept": "text/html"})
        tasks += [asyncio.create_task(one) for one in (self._report(), self._schedule())]
        self._tasks = tasks
        await asyncio.sleep(5.0)
        for _ in range(count):
            without = await self._measured(seconds)
            browsers = [asyncio.create_task(self._browse(n)) for n in range(pages.BROWSERS)]
            live = await self._measured(seconds)
            await _end(browsers)
            ratios = {f"ratio_{p}": round(live[f"{p}_ms"] / without[f"{p}_ms"], 2) for p in _SHARES}
            yield {"benchmark": "browsing", "nodes": len(bench.names), **ratios, "without": without, "live": live, "aim": "ratio_p99 <= 1.1"}  # fmt: skip
        await _end(tasks)

    async def _measured(self, seconds: float) -> dict[str, Any]:
        await asyncio.sleep(5.0)
        recorded, newest = self._bench.past.recording.seconds, self._bench.past.newest
        self._latencies.clear()
        self._drawn, begun, spent = 0, time.monotonic(), time.thread_time()
        await asyncio.sleep(seconds)
        for task in self._tasks:
            if task.done():
                task.result()
        took = time.monotonic() - begun
        recorded = self._bench.past.recording.seconds - recorded
        figures = {
            f"{name}_ms": 1e3 * measure.percentile(self._latencies, share)
            for name, share in _SHARES.items()
        }
        figures["cpu_ms_per_s"] = 1e3 * (time.thread_time() - spent) / took
        figures["history_ms_per_s"] = 1e3 * recorded / took
        figures["transitions_per_s"] = (self._bench.past.newest - newest) / took
        figures["fetched_per_s"] = self._drawn / took
        return {name: round(value, 2) for name, value in figures.items()}

    def _paths(self) -> list[str]:
        return list(pages.paths(self._bench.names))

    async def _report(self) -> None:
        begun, names = time.monotonic(), self._bench.names
        for number in itertools.count():
            new = self._rng.random(len(cluster.METRICS)) < _NEW
            values = (100 * self._rng.random(len(cluster.METRICS))).tolist()
            fields = zip(cluster.METRICS, values, new, strict=True)
            delta = Delta({metric: value for metric, value, is_new in fields if is_new})
            name = names[number * 7919 % len(names)]
            self._bench.store.report(name, delta, time.monotonic())
            self._bench.decider.touch()
            await asyncio.sleep(max(0.0, begun + number / _REPORTS - time.monotonic()))

    async def _schedule(self) -> None:
        begun = end = time.monotonic()
        for pod in itertools.count():
            due = begun + (pod + self._rng.random() / 2) / _PODS
            for verb in ("filter", "prioritize"):
                at = max(due, end + 0.001)
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                for _ in range(_READS):
                    await asyncio.sleep(0)
                path = f"/scheduler/{verb}"
                request = Request("POST", path, {}, {}, self._body)
                answer = await self._verbs[path].handler(request)
                if answer.status != 200:
                    raise RuntimeError(f"{verb}: {answer.status}")
                end = time.monotonic()
                self._latencies.append(end - at)

    async def _browse(self, number: int) -> None:
        """Show a live page until cancelled, as its script does."""
        path, seen, due = self._paths()[number % len(self._paths())], "", 0.0
        await asyncio.sleep(number / pages.BROWSERS)
        while True:
            page = await self._get(path, {"accept": "text/html", **pages.known(seen)})
            self._drawn, fetched = self._drawn + 1, time.monotonic()
            position = pages.live_from(page)
            seen = seen or position
            while time.monotonic() < fetched + pages.REFRESH:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                asked = {"accept": "text/event-stream", **pages.known(seen)}
                seen, wait, changed = pages.event(await self._get(path, asked))
                due = time.monotonic() + wait
                if changed:
                    break

    async def _get(self, path: str, headers: dict[str, str]) -> str:
        path, _, query = path.partition("?")
        given = {query.partition("=")[0]: [query.partition("=")[2]]} if query else {}
        answer = await self._bench.operations.answer(Request("GET", path, given, headers))
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        body = answer.body
        return b"".join(body.parts if isinstance(body, Parts) else [body]).decode()


_SHARES = {"p50": 0.5, "p99": 0.99}


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


def measured(
    nodes: int = 5000, policies: int = 50, seconds: float = 20.0, rounds: int = 5
) -> Iterator[Line]:
    """Yield the line of each round, and the median of their ratios."""
    with timing.idle_machine() as machine:
        lines = Browsing(nodes, policies).rounds(seconds, rounds)
        found = []
        while True:
            try:
                found.append(machine.run(anext(lines)))
            except StopAsyncIteration:
                break
            yield found[-1]
    ratios = {
        name: statistics.median(line[name] for line in found) for name in ("ratio_p50", "ratio_p99")
    }
    yield {"benchmark": "browsing", "case": "median", "nodes": nodes, **ratios, "aim": "ratio_p99 <= 1.1"}  # fmt: skip


if __name__ == "__main__":
    commandline.run(measured)
