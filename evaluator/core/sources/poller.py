"""Polls a source for every metric of policies; each metric is polled independently, so that none delays another.

`Coverage` describes in few log lines which metrics a source has for which nodes.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from evaluator.core.isolation import Part, uncounted
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.signals import Publish, SourcePolled
from evaluator.core.sources.answer import PolledAnswer, SourceError
from plimsoll import durations, logs

_NAMED = 5
"""Metrics or nodes named in a line; the others are counted."""


class Line(NamedTuple):
    """One log line. `bad`: it is a warning."""

    text: str
    bad: bool


class _State(NamedTuple):
    """State of a metric: the nodes without it (None: the poll failed), and the error, if any."""

    missing: frozenset[str] | None
    fault: str


class Coverage:
    """The current state of each metric, and the state last logged."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._states: dict[str, _State] = {}
        self._logged: dict[str, _State] = {}
        self.changed = False
        """Whether there may be changes to log."""

    @property
    def failing(self) -> int:
        """The number of metrics whose poll fails."""
        return sum(state.missing is None for state in self._states.values())

    def note(self, metric: str, missing: frozenset[str] | None, fault: str) -> None:
        """Record the state of a metric."""
        state = _State(missing, fault)
        if self._states.get(metric) != state:
            self._states[metric] = state
            self.changed = True

    def keep(self, metrics: Collection[str]) -> None:
        """Drop all other metrics."""
        for states in (self._states, self._logged):
            for metric in states.keys() - set(metrics):
                del states[metric]

    def changes(self, nodes: int) -> list[Line]:
        """Return a line for each changed state; metrics with equal states share one."""
        by_state: dict[_State, list[str]] = {}
        for metric, state in self._states.items():
            if self._logged.get(metric) != state:
                by_state.setdefault(state, []).append(metric)
        self._logged = dict(self._states)
        self.changed = False
        return [self._line(state, sorted(metrics), nodes) for state, metrics in by_state.items()]

    def _line(self, state: _State, metrics: list[str], nodes: int) -> Line:
        names = _some(metrics)
        if state.missing is None:
            return Line(f"{self._source} has no answer for {names}: {state.fault}", bad=True)
        text = f"{self._source} has {names} for {nodes - len(state.missing)} of {nodes} nodes"
        if state.missing:
            text += f", not for {_some(sorted(state.missing))}"
        if state.fault:
            text += f"; {state.fault}"
        return Line(text, bad=bool(state.fault) or len(state.missing) == nodes > 0)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


log = logs.get(__name__)


class Source(Protocol):
    """A pollable source of readings."""

    async def fetch(self, metric: str) -> PolledAnswer:
        """Return a metric's readings by node. Raises SourceError."""
        ...

    async def close(self) -> None:
        """Release resources; no further calls follow."""
        ...


@dataclass(frozen=True, slots=True)
class PollTimings:
    """Seconds between polls of a metric, timeout in seconds, and concurrent requests.

    `suspects` further requests are for metrics whose last poll failed: they may hang, and must not delay the others.
    """

    period: float
    timeout: float
    at_once: int = 8
    suspects: int = 4
    gather: float = 1.0
    """Seconds for which changes are collected before they are logged together."""


class Poller:
    """Writes polled readings to `polled`. `publish`: told that a poll changed anything."""

    def __init__(
        self,
        source: Source,
        polled: PolledReadings,
        subscriptions: Subscriptions,
        metrics: Metrics,
        *,
        timings: PollTimings,
        nodes: Collection[str],
        publish: Publish,
        clock: Callable[[], float] = time.monotonic,
        part: Part | None = None,
    ) -> None:
        self._part = part or uncounted(f"source {polled.name}")
        self._source = source
        self._polled = polled
        self._subscriptions = subscriptions
        self._timings = timings
        self._nodes = nodes
        self._publish = publish
        self._clock = clock
        self._errors = metrics.source_errors
        self._seconds = metrics.source_seconds.labels(polled.name)
        self._failing = metrics.source_failing.labels(polled.name)
        self._slots = asyncio.Semaphore(timings.at_once)
        self._suspect_slots = asyncio.Semaphore(timings.suspects)
        self._suspects: set[str] = set()
        self._coverage = Coverage(polled.name)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Poll until cancelled."""
        tasks: dict[str, asyncio.Task[None]] = {}
        generation = 0
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._log_changes())
                while True:
                    subscription = await self._subscriptions.after(generation)
                    generation = subscription.generation
                    for metric in tasks.keys() - set(subscription.metrics):
                        tasks.pop(metric).cancel()
                    self._keep(subscription.metrics)
                    for metric in subscription.metrics:
                        if metric not in tasks:
                            tasks[metric] = group.create_task(self._poll_forever(metric))
        finally:
            await self._source.close()

    def _keep(self, metrics: Collection[str]) -> None:
        self._suspects &= set(metrics)
        self._coverage.keep(metrics)
        self._failing.set(self._coverage.failing)

    async def _poll_forever(self, metric: str) -> None:
        """Poll one metric, once per period."""
        while True:
            started = self._clock()
            async with self._suspect_slots if metric in self._suspects else self._slots:
                await self._poll(metric)
            due = started + self._timings.period - self._clock()
            await asyncio.sleep(max(0.0, due, self._part.rest(metric)))

    async def _poll(self, metric: str) -> None:
        version = self._polled.version
        try:
            with self._seconds.time():
                async with asyncio.timeout(self._timings.timeout):
                    answer = await self._source.fetch(metric)
        except SourceError as error:
            self._failed(metric, error.reason, str(error))
        except TimeoutError:
            limit = durations.format_duration(self._timings.timeout)
            self._failed(metric, "timeout", f"no response within {limit}")
        except Exception:  # noqa: BLE001 (isolated)
            self._raised(metric)
        else:
            try:
                self._answered(metric, answer)
            except Exception:  # noqa: BLE001 (isolated)
                self._raised(metric)
            else:
                self._part.succeeded(metric)
        self._failing.set(self._coverage.failing)
        if self._coverage.changed:
            self._changed.set()
        if self._polled.version != version:
            self._publish(SourcePolled())

    def _raised(self, metric: str) -> None:
        """Note the exception that is being handled: the metric fails, and is left alone for a while."""
        self._part.failed(metric)
        self._failed(metric, "bug", "internal error, see the evaluator's log")

    def _answered(self, metric: str, answer: PolledAnswer) -> None:
        self._suspects.discard(metric)
        fault = "; ".join(answer.flaws)
        if fault:
            self._errors.labels(self._polled.name, "flaw").inc()
        self._polled.answer(metric, answer.readings, self._clock(), fault=fault)
        missing = frozenset(node for node in self._nodes if node not in answer.readings)
        self._coverage.note(metric, missing, fault)

    def _failed(self, metric: str, reason: str, fault: str) -> None:
        self._suspects.add(metric)
        self._errors.labels(self._polled.name, reason).inc()
        self._polled.failed(metric, fault)
        self._coverage.note(metric, None, fault)

    async def _log_changes(self) -> None:
        """Log changes of coverage, collected for a moment."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(self._timings.gather)
            self._changed.clear()
            with self._part.isolated("log lines"):
                for line in self._coverage.changes(len(self._nodes)):
                    (log.warning if line.bad else log.info)(line.text, source=self._polled.name)
