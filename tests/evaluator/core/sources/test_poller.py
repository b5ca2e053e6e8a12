"""The polling loop: frequency, concurrency, and effects of hanging or failing requests."""

import asyncio
import re
from types import SimpleNamespace

import pytest

from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.readings.column import Reading
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.sources.answer import PolledAnswer, SourceError
from evaluator.core.sources.poller import Poller, PollTimings
from tests.patience import PATIENCE

NODES = {"a": None, "b": None}
QUICK = PollTimings(0.001, PATIENCE, gather=0.0)
SLOW = PollTimings(3600.0, PATIENCE, gather=0.0)


class Source:
    """A source with scripted responses per metric, the last one repeated; requests can be awaited."""

    def __init__(self):
        self.script = {}
        self.asked = []
        self.open = 0
        self.most = 0
        self.closed = False
        self._told = asyncio.Condition()

    def says(self, metric, *answers):
        self.script[metric] = list(answers)

    async def fetch(self, metric):
        script = self.script.get(metric, [{"a": 1.0, "b": 2.0}])
        answer = script.pop(0) if len(script) > 1 else script[0]
        self.asked.append(metric)
        self.open += 1
        self.most = max(self.most, self.open)
        async with self._told:
            self._told.notify_all()
        try:
            if answer == "hang":
                await asyncio.Event().wait()
            if isinstance(answer, Exception):
                raise answer
            return PolledAnswer({node: Reading(1, value, 0.0) for node, value in answer.items()})
        finally:
            self.open -= 1

    async def close(self):
        self.closed = True

    async def until(self, predicate):
        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(predicate)


@pytest.fixture
def make(background):
    """A running poller with its environment."""

    def start(*metrics, pace=QUICK, source=None):
        found = SimpleNamespace(
            source=source or Source(),
            polls=PolledReadings("prometheus", stale_after=30.0, started=-1000.0),
            subscriptions=Subscriptions(),
            metrics=Metrics(),
            changes=[],
        )
        found.poller = Poller(
            found.source,
            found.polls,
            found.subscriptions,
            found.metrics,
            timings=pace,
            nodes=NODES,
            publish=lambda _signal: found.changes.append(found.polls.version),
            clock=lambda: 0.0,
        )

        def want(*metrics):
            found.polls.subscribe(metrics)
            found.subscriptions.want(metrics)

        def column(metric):
            return found.polls.column(metric, ("a", "b"), 0.0)

        found.want, found.column = want, column
        want(*metrics)
        found.task = background(found.poller.run())
        return found

    return start


def sample(found, name, **labels):
    return found.metrics.registry.get_sample_value(name, {"source": "prometheus", **labels})


async def test_each_metric_is_polled_periodically(make):
    found = make("cpu", "mem")
    await found.source.until(
        lambda: min(found.source.asked.count(metric) for metric in ("cpu", "mem")) > 3
    )
    assert found.column("cpu").values.tolist() == [1.0, 2.0]


async def test_each_metric_is_polled_once_per_period(make):
    found = make("cpu", "mem", pace=SLOW)
    await found.source.until(lambda: len(found.source.asked) == 2)
    found.want("cpu", "disk", "mem")
    await found.source.until(lambda: len(found.source.asked) == 3)
    assert sorted(found.source.asked) == ["cpu", "disk", "mem"]


async def test_only_metrics_of_policies_are_polled(make, until):
    found = make("cpu")
    await found.source.until(lambda: "cpu" in found.source.asked)
    found.want("mem")
    await found.source.until(lambda: "mem" in found.source.asked)
    found.source.asked.clear()
    await found.source.until(lambda: len(found.source.asked) > 5)
    assert set(found.source.asked) == {"mem"}


async def test_listener_is_called_only_if_a_response_changes_something(make):
    source = Source()
    source.says("cpu", {"a": 1.0}, {"a": 1.0}, {"a": 2.0})
    found = make("cpu", source=source)
    await source.until(lambda: len(source.asked) > 6)
    assert len(found.changes) == 2


async def test_hanging_requests_delay_no_others(make):
    source = Source()
    hanging = [f"hang-{number}" for number in range(40)]
    for metric in hanging:
        source.says(metric, "hang")
    found = make(
        "cpu", *hanging, pace=PollTimings(0.001, 0.05, at_once=2, gather=0.0), source=source
    )
    await source.until(lambda: source.asked.count("cpu") > 20)
    assert found.column("cpu").usable.all()
    assert sample(found, "plimsoll_source_errors_total", reason="timeout") >= 1


async def test_repeatedly_hanging_requests_have_their_own_slots(make):
    """With as many hanging metrics as slots, the others would wait for a timeout each time."""
    source = Source()
    for metric in ("hang-1", "hang-2"):
        source.says(metric, SourceError("http_500", "500"), "hang")
    found = make(
        "cpu",
        "hang-1",
        "hang-2",
        pace=PollTimings(0.001, PATIENCE, at_once=2, gather=0.0),
        source=source,
    )
    await source.until(lambda: source.open >= 2 and source.asked.count("hang-2") == 2)
    before = source.asked.count("cpu")
    await source.until(lambda: source.asked.count("cpu") > before + 10)
    assert found.column("hang-1").fault == "prometheus: 500"


async def test_concurrent_requests_are_bounded(make):
    source = Source()
    names = [f"m{number}" for number in range(30)]
    for name in names:
        source.says(name, "hang")
    make(*names, pace=PollTimings(3600.0, PATIENCE, at_once=5, gather=0.0), source=source)
    await source.until(lambda: source.open == 5)
    for _ in range(20):
        await asyncio.sleep(0)
    assert source.most == 5


async def test_failure_is_counted_and_the_metric_polled_again(make, until):
    source = Source()
    source.says("cpu", SourceError("http_500", "500 oh"), {"a": 1.0, "b": 1.0})
    found = make("cpu", "mem", source=source)
    await until(lambda: bool(found.column("cpu").usable.all()))
    assert sample(found, "plimsoll_source_errors_total", reason="http_500") == 1
    assert sample(found, "plimsoll_source_failing_metrics") == 0
    assert sample(found, "plimsoll_source_request_duration_seconds_count") >= 2


async def test_failing_metrics_are_a_gauge(make, until):
    source = Source()
    source.says("cpu", SourceError("http_404", "404"))
    source.says("gpu", SourceError("http_404", "404"))
    found = make("cpu", "gpu", "mem", source=source)
    await until(lambda: sample(found, "plimsoll_source_failing_metrics") == 2)
    found.want("gpu", "mem")
    await until(lambda: sample(found, "plimsoll_source_failing_metrics") == 1)


async def test_bug_in_a_source_is_a_failure(make, until, log_lines):
    lines = log_lines("logfmt")
    source = Source()
    source.says("cpu", RuntimeError("nobody thought of this"))
    found = make("cpu", "mem", source=source)
    await until(lambda: sample(found, "plimsoll_source_errors_total", reason="bug"))
    await source.until(lambda: source.asked.count("mem") > 3)
    assert "internal error" in found.column("cpu").fault
    assert any("nobody thought of this" in line for line in lines())


async def test_coverage_is_logged_once(make, until, log_lines):
    lines = log_lines("logfmt")
    source = Source()
    source.says("half", {"a": 1.0})
    source.says("none", SourceError("empty", "no series"))
    found = make(
        "cpu", "half", "mem", "none", source=source, pace=PollTimings(0.001, PATIENCE, gather=0.05)
    )
    told = []

    def three():
        told.extend(re.search(r'msg="([^"]*)"', line)[1] for line in lines())
        return len(told) >= 3

    await until(three)
    seen = len(source.asked)
    await source.until(lambda: len(source.asked) > seen + 20)
    three()
    assert sorted(told) == [
        "prometheus has cpu, mem for 2 of 2 nodes",
        "prometheus has half for 1 of 2 nodes, not for b",
        "prometheus has no answer for none: no series",
    ]
    assert found.column("none").fault == "prometheus: no series"


async def test_cancellation_closes_the_source(make):
    found = make("cpu")
    await found.source.until(lambda: found.source.asked)
    found.task.cancel()
    await asyncio.wait([found.task])
    assert found.source.closed
