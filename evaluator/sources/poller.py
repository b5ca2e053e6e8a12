"""Asks a source for every metric that policies name, again and again: each metric for itself, so that none waits for another."""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from evaluator.engine.subscription import Subscriptions
from evaluator.metrics import Metrics
from evaluator.readings.polled import PolledReadings
from evaluator.sources.formats.answer import PolledAnswer, SourceError
from evaluator.sources.formats.coverage import Coverage
from plimsoll import durations, logs

log = logs.get(__name__)


class Source(Protocol):
    """Somebody who can be asked for a metric."""

    async def ask(self, metric: str) -> PolledAnswer:
        """What it is on which node. Raises SourceError."""
        ...

    async def close(self) -> None:
        """There will be no more questions."""
        ...


@dataclass(frozen=True, slots=True)
class PollTimings:
    """How often each metric is asked for, how long an answer may take (seconds), and how many questions go at once.

    `suspects` more are for metrics that had no answer last time: they may hang, and must not hold up those that do not.
    """

    period: float
    timeout: float
    at_once: int = 8
    suspects: int = 4
    gather: float = 1.0
    """Seconds in which changes are gathered before the log tells of them: they seldom come alone."""


class Poller:
    """Feeds `polls` from a source. `on_change` is called when an answer made a difference."""

    def __init__(
        self,
        source: Source,
        polls: PolledReadings,
        subscriptions: Subscriptions,
        metrics: Metrics,
        *,
        pace: PollTimings,
        nodes: Callable[[], Collection[str]],
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._polls = polls
        self._subscriptions = subscriptions
        self._pace = pace
        self._nodes = nodes
        self._on_change = on_change
        self._clock = clock
        self._errors = metrics.source_errors
        self._seconds = metrics.source_seconds.labels(polls.name)
        self._failing = metrics.source_failing.labels(polls.name)
        self._slots = asyncio.Semaphore(pace.at_once)
        self._suspect_slots = asyncio.Semaphore(pace.suspects)
        self._suspects: set[str] = set()
        self._coverage = Coverage(polls.name)
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Ask for ever."""
        following: dict[str, asyncio.Task[None]] = {}
        generation = 0
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tell())
                while True:
                    wanted = await self._subscriptions.after(generation)
                    generation = wanted.generation
                    for metric in following.keys() - set(wanted.metrics):
                        following.pop(metric).cancel()
                    self._forget_others(wanted.metrics)
                    for metric in wanted.metrics:
                        if metric not in following:
                            following[metric] = group.create_task(self._follow(metric))
        finally:
            await self._source.close()

    def _forget_others(self, metrics: Collection[str]) -> None:
        self._suspects &= set(metrics)
        self._coverage.keep(metrics)
        self._failing.set(self._coverage.failing)

    async def _follow(self, metric: str) -> None:
        """Ask for one metric, once a period."""
        while True:
            begun = self._clock()
            async with self._suspect_slots if metric in self._suspects else self._slots:
                await self._poll(metric)
            await asyncio.sleep(max(0.0, begun + self._pace.period - self._clock()))

    async def _poll(self, metric: str) -> None:
        version = self._polls.version
        try:
            with self._seconds.time():
                async with asyncio.timeout(self._pace.timeout):
                    answer = await self._source.ask(metric)
        except SourceError as error:
            self._failed(metric, error.reason, str(error))
        except TimeoutError:
            limit = durations.format_duration(self._pace.timeout)
            self._failed(metric, "timeout", f"no answer within {limit}")
        except Exception:
            log.exception("a question that went wrong", source=self._polls.name, metric=metric)
            self._failed(metric, "bug", "a fault of this program, see its log")
        else:
            self._answered(metric, answer)
        self._failing.set(self._coverage.failing)
        if self._coverage.new:
            self._news.set()
        if self._polls.version != version:
            self._on_change()

    def _answered(self, metric: str, answer: PolledAnswer) -> None:
        self._suspects.discard(metric)
        fault = "; ".join(answer.flaws)
        if fault:
            self._errors.labels(self._polls.name, "flaw").inc()
        self._polls.answer(metric, answer.readings, self._clock(), fault=fault)
        lacking = frozenset(node for node in self._nodes() if node not in answer.readings)
        self._coverage.note(metric, lacking, fault)

    def _failed(self, metric: str, reason: str, fault: str) -> None:
        self._suspects.add(metric)
        self._errors.labels(self._polls.name, reason).inc()
        self._polls.failed(metric, fault)
        self._coverage.note(metric, None, fault)

    async def _tell(self) -> None:
        """Log what changed, gathered for a moment."""
        while True:
            await self._news.wait()
            await asyncio.sleep(self._pace.gather)
            self._news.clear()
            for line in self._coverage.tell(len(self._nodes())):
                (log.warning if line.bad else log.info)(line.text, source=self._polls.name)
