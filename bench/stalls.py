"""How long the evaluator blocks its event loop: the CPU time of the longest callback.

Runs the decision loop, the store, the history and the ops pages in this process, without network, agents and writers: 5,000
nodes, 1,000 metrics, 100 policies of 100 rules. Every callback of the loop is timed. Prints one JSON line per case, in
milliseconds of CPU time, which is reliable on a busy machine:

    start       the first decisions, before any node has reported, then while all nodes send their first report
    rest        all nodes confirm their readings once a second
    readings    the same, and one node in a hundred reports other values each second
    explain     the same, while the pages of all policies are requested in turn
    explain-pods   the same, while those of pods and nodes are requested
    browser     the same, while the pages for a browser are requested, as HTML
    metrics     the same, while /metrics is requested, with gzip
    live        the same, while ten browsers show pages that are live

`history_ms_per_s` is the CPU time of recording, and `live_ms_per_s` that of the live pages, in each second.

    python -P bench/stalls.py [--nodes 5000] [--metrics 1000] [--policies 100] [--rules 100] [--seconds 6]
"""

import asyncio
import gc
import itertools
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench import cluster, commandline
from bench.commandline import Line
from bench.timing import CallbackTimes, CpuTime
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.http.ops import OpsServer
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.names import POLICY_LABEL, PolicyKey
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.pod import Pod, PodMeta, PodSpec, PodStatus
from evaluator.core.pages.part import PagePart, Scope
from evaluator.core.policy.parse import parse
from evaluator.core.policy.types import Policy
from evaluator.core.readings.store import Store
from evaluator.core.signals import Decided, on, wakes
from evaluator.features.history.history import History
from evaluator.features.history.kinds import SharedActionsFields
from evaluator.features.history.page import HistoryReports, section
from evaluator.features.history.pods import PodDecisions
from evaluator.features.history.readers import Live
from evaluator.features.history.recorder import HistoryMetrics, Recorder
from evaluator.features.history.series import Series
from evaluator.features.pages.feature import routes
from evaluator.features.pages.handlers import Reports
from evaluator.features.pages.sources import PageSources
from evaluator.features.pages.targets import Targets
from plimsoll.http.types import Request, Response
from plimsoll.process import garbage
from wire.codec import Delta

CHANGING = 0.01
Clock = Callable[[], float]
Page = tuple[str, dict[str, list[str]]]
"""Path and query."""
AIM = "longest_ms <= 5 loops"
BROWSERS = 10
_HISTORY = 64 << 20
"""Bytes, the default of --historySize."""
_RETRY = re.compile(r"retry: (\d+)")


class RecordedHistory:
    """A history as its feature wires it, and the CPU time that recording takes."""

    def __init__(self, decider: DecisionLoop, figures: Metrics, clock: Clock) -> None:
        self.recording = CpuTime()
        history, series = History(_HISTORY * 9 // 16, 24 * 3600.0), Series(_HISTORY * 6 // 16)
        self._history = history
        metrics = HistoryMetrics(figures.registry)
        self._recorder = Recorder(history, series, metrics, clock=clock)
        self.reports = HistoryReports(
            history,
            series,
            lambda: decider.latest,
            Live(history, tuple),
            PodDecisions(history, lambda: decider.latest, str, _HISTORY // 16),
            lambda: SharedActionsFields("", 0, None, None),
            started=time.time(),
            clock=time.time,
        )

    @property
    def newest(self) -> int:
        """The number of records so far."""
        return self._history.newest

    def decided(self, decided: Decided) -> Iterator[None]:
        """Record what changed."""
        return self.recording.steps(self._recorder.decided(decided))

    async def sample(self) -> None:
        """Sample readings until cancelled."""
        await self.recording.of(self._recorder.sample())


def _line(case: str, callbacks: CallbackTimes, sizes: Line) -> Line:
    """Return the figures of the callbacks since their `begin`."""
    taken = sorted(callbacks.taken)
    return {
        "benchmark": "stalls",
        "case": case,
        "longest_ms": round(taken[-1] * 1e3, 2),
        "p999_ms": round(taken[int(0.999 * len(taken))] * 1e3, 2),
        "over_5_ms": sum(seconds > 0.005 for seconds in taken),
        "callbacks": len(taken),
        **sizes,
        "aim": AIM,
    }


def generated(policies: int, metrics: int, rules: int) -> list[Policy]:
    """Return policies with this many rules, a third in each strategy except scheduleonmetric."""
    rng = random.Random(2)

    def some(*, labels: bool) -> dict[str, Any]:
        rules_made = []
        for number in range(max(1, rules // 3)):
            more: dict[str, Any] = {"labels": [f"level{number % 10}=v{number}"]} if labels else {}
            metric = f"metric_{rng.randrange(metrics)}"
            rules_made.append(cluster.rule(metric, rng.choice((50, 94, 99)), **more))
        return {"rules": rules_made}

    def strategies() -> dict[str, Any]:
        return {
            "dontschedule": some(labels=False),
            "deschedule": some(labels=False),
            "labeling": some(labels=True),
        }

    return [
        parse(cluster.policy_object(f"policy-{number}", strategies(), uid=f"{number}"))
        for number in range(policies)
    ]


def _pod(policy: PolicyKey) -> Pod:
    """Return a waiting pod of a policy."""
    meta = PodMeta(
        name=f"of-{policy.name}",
        namespace=policy.namespace,
        labels={POLICY_LABEL: policy.name},
    )
    return Pod(meta, PodSpec(requests_extender=True), PodStatus("Pending"))


class Bench:
    """The cases; each builds on the previous one."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        seconds: float,
        policies: Sequence[Policy] = (),
        clock: Clock = time.monotonic,
    ) -> None:
        self.sizes = sizes
        self.names = [f"node-{number:05d}.example.com" for number in range(sizes["nodes"])]
        self.metrics = [f"metric_{number}" for number in range(sizes["metrics"])]
        self.seconds = seconds
        self.rng = np.random.default_rng(1)
        cache, figures = ClusterCache(), Metrics()
        self.store = Store(stale_after=60.0, started=clock())
        self.decider = DecisionLoop(cache, self.store, Subscriptions(), figures, clock=clock)
        self.past, self.live = RecordedHistory(self.decider, figures, clock), CpuTime()
        self._swapped = asyncio.Event()
        cache.signals.connect(self.decider.reactions())
        cache.signals.connect([on(Decided, self.past.decided)])
        cache.signals.connect(wakes(self._swapped.set, Decided))
        part = PagePart(section=section(self.past.reports, shown=True), past=self.past.reports)
        sources = PageSources(self.decider, cache, clock=clock, parts=lambda: (part,))
        pages = routes(Reports(sources), Targets(sources.sections))
        self.operations = OpsServer(self.decider, figures, pages=pages)
        given = {name: sizes[name] for name in ("policies", "metrics", "rules")}
        cache.policies.replace([*(policies or generated(**given))])
        cache.nodes.replace([Node(NodeMeta(name=name, uid=name)) for name in self.names])
        cache.pods.replace([_pod(key) for key in cache.policies.objects])
        self.policies = list(cache.policies.objects)
        self.drawn = 0
        """Pages drawn for live browsers."""

    @property
    def explained(self) -> list[Page]:
        """The pages of pods and nodes of /explain."""
        pods = ({"pod": [f"bench/of-{key.name}"]} for key in self.policies)
        return [
            ("/explain", query) for query in (*pods, {"node": [self.names[0]]}, {"nodes": [""]}, {})
        ]

    @property
    def browser(self) -> list[Page]:
        """The pages for a browser: path and query."""
        node, everything = self.names[0], {"state": ["all"]}
        return [
            ("/", {}),
            ("/policies/bench/policy-0", {}),
            ("/policies/bench/policy-1", everything | {"search": ["9"]}),
            ("/nodes", {}),
            ("/nodes", everything | {"page": ["9"]}),
            (f"/nodes/{node}", {}),
            ("/pods", {}),
            ("/pods/bench/of-policy-0", {}),
            ("/rules", {}),
            ("/history", {}),
        ]

    async def run(self) -> AsyncIterator[Line]:
        """Yield the lines of all cases."""
        callbacks = CallbackTimes()
        garbage.raise_thresholds()
        gc.collect()
        callbacks.watch()
        work = (self.decider.run(), self.past.sample())
        tasks = [asyncio.create_task(one) for one in work]
        self.decider.touch()
        await self._decided()
        for name in self.names:
            self.report(name)
            await asyncio.sleep(0)
        await self._decided()
        yield _line("start", callbacks, self.sizes)
        tasks.append(asyncio.create_task(self.confirm()))
        await callbacks.begin()
        await asyncio.sleep(self.seconds)
        yield _line("rest", callbacks, self.sizes)
        tasks.append(asyncio.create_task(self.change()))
        policies: list[Page] = [
            (f"/explain/{key.namespace}/{key.name}", {}) for key in self.policies
        ]
        cases: Mapping[str, Sequence[Page]] = {
            "readings": (),
            "explain": policies,
            "explain-pods": self.explained,
            "browser": self.browser,
            "metrics": [("/metrics", {})],
        }
        for case, pages in cases.items():
            await callbacks.begin()
            recorded = self.past.recording.seconds
            await self.reading(pages)
            spent = self.past.recording.seconds - recorded
            yield _line(case, callbacks, {**self._share("history", spent), **self.sizes})
        await callbacks.begin()
        browsers = [asyncio.create_task(self.browse(number)) for number in range(BROWSERS)]
        await asyncio.sleep(self.seconds)
        line = _line("live", callbacks, {**self._share("live", self.live.seconds), **self.sizes})
        yield {**line, "drawn": self.drawn}
        for task in (*tasks, *browsers):
            task.cancel()
        for ended in await asyncio.gather(*tasks, *browsers, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    def _share(self, name: str, spent: float) -> Line:
        return {f"{name}_ms_per_s": round(1e3 * spent / self.seconds, 2)}

    async def _decided(self) -> None:
        before = self.decider.latest
        while self.decider.latest is before:
            await self._swapped.wait()
            self._swapped.clear()

    def report(self, name: str) -> None:
        """Report new values of all metrics."""
        values = (self.rng.random(len(self.metrics)) * 100).tolist()
        self.store.report(
            name, Delta(dict(zip(self.metrics, values, strict=True))), time.monotonic()
        )
        self.decider.touch()

    async def confirm(self) -> None:
        """Confirm the readings of every node once a second."""
        while True:
            for number, name in enumerate(self.names):
                self.store.report(name, Delta(), time.monotonic())
                if number % 50 == 0:
                    await asyncio.sleep(50 / len(self.names))

    async def change(self) -> None:
        """Change one node in a hundred each second."""
        pause = 1 / max(1.0, CHANGING * len(self.names))
        while True:
            self.report(self.names[int(self.rng.integers(len(self.names)))])
            await asyncio.sleep(pause)

    async def reading(self, pages: Sequence[Page]) -> None:
        """Request these pages in turn for the duration of a case."""
        until = time.monotonic() + self.seconds
        for path, query in itertools.cycle(pages):
            await self.get(path, query)
            if time.monotonic() > until:
                return
        await asyncio.sleep(self.seconds)  # there are none

    async def browse(self, number: int) -> None:
        """Show a live page until cancelled, as its script does: an event has it fetched again."""
        path, query = self.browser[number % len(self.browser)]
        position = self.past.reports.position_of(Scope())
        while True:
            asked = {"accept": "text/event-stream", "last-event-id": position}
            request = Request("GET", path, query, asked)
            answer = await self.live.of(self._answer(request))
            text = answer.body.decode()
            position = text.partition("id: ")[2].split("\n")[0]
            if "event: change" in text:
                asked = {"accept": "text/html", "last-event-id": position}
                request = Request("GET", path, query, asked)
                await self.live.of(self._answer(request))
                self.drawn += 1
            found = _RETRY.search(text)
            assert found is not None, text
            await asyncio.sleep(int(found[1]) / 1e3)

    async def _answer(self, request: Request) -> Response:
        return await self.operations.answer(request)

    async def get(self, path: str, query: dict[str, list[str]]) -> None:
        """Render one page of the ops port. Raises RuntimeError for an error status."""
        headers = {"accept-encoding": "gzip"}
        response = await self.operations.answer(Request("GET", path, query, headers))
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status}")


def measured(
    nodes: int = 5000,
    metrics: int = 1000,
    policies: int = 100,
    rules: int = 100,
    seconds: float = 6.0,
) -> AsyncIterator[Line]:
    """Yield the lines of all cases."""
    sizes = {"nodes": nodes, "metrics": metrics, "policies": policies, "rules": rules}
    return Bench(sizes, seconds).run()


if __name__ == "__main__":
    commandline.run(measured)
