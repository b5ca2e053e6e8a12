"""Evaluates rule groups over this node's samples, each at its interval, and publishes their results.

One thread looks for changed rule files, runs the collectors that the due groups need, once for all, and evaluates the
groups in order. Requests and streams read the last published result, which is immutable.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from threading import Event, Lock, Thread

from agent.rules.clock import Clock
from agent.rules.files import ErrorLog, FailureTimes, RuleFileReader
from agent.rules.groups import metrics as accounts
from agent.rules.groups import ranges
from agent.rules.groups.dependencies import Recorders
from agent.rules.groups.file import SHORTEST, RuleError, RuleFile
from agent.rules.groups.manager import GroupManager
from agent.rules.groups.members import Part
from agent.rules.groups.results import Published
from agent.rules.groups.schedule import LONGEST_STEP
from agent.rules.groups.tick import by_metric
from agent.rules.inputs import RuleInputs
from agent.rules.options import RuleOptions
from agent.rules.promql.budget import Budget, CancelledError
from agent.rules.state_file import StateSaver
from agent.rules.storage.snapshot import Snapshot
from agent.rules.subscribers import Subscribers
from agent.scrape.runner import CollectorRunner
from collectors.interface.sample import Family
from plimsoll import logs
from plimsoll.threads import StoppedError
from wire.failing_rules import FailingRule

log = logs.get(__name__)

_LOOK = 2_000
"""Milliseconds between two checks for changed rule files."""
_EXPIRY = 3_000
"""Milliseconds after which the first results may become too old."""
_SAVE = 60.0
"""Seconds between two saves of the state file."""
_PATIENCE = 3.0
"""Seconds that a save waits for the current evaluation, which may be waiting for a collector."""
_GROUP_TIMEOUT = 5  # times --rules.timeout


class RuleEngine:
    """The rules of some files; implements `agent.rule_results.RuleResults`. Blocking calls and `run` are for one thread at a time."""

    def __init__(
        self,
        sources: CollectorRunner,
        options: RuleOptions,
        *,
        saver: StateSaver | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._inputs = RuleInputs(sources)
        self._clock = clock or Clock()
        self._budget = Budget(
            self._clock.processor,
            rule_seconds=options.timeout,
            group_seconds=_GROUP_TIMEOUT * options.timeout,
        )
        self._files = RuleFileReader(options.files, budget=self._budget)
        self._looked: int | None = None
        self._saver = saver
        self._saved: Mapping[str, Snapshot] | None = None
        self._working = Lock()
        self._groups = GroupManager(
            interval=round(options.interval * 1000),
            max_memory=options.max_memory,
            sources=self._inputs.collectors,
            quick_interval=self._inputs.interval,
            closed=options.closed,
            budget=self._budget,
        )
        self._short = partial(
            ranges.short, interval=round(options.interval * 1000), closed=options.closed
        )
        self._subscribers = Subscribers(options.notable_change)
        self._notices = ErrorLog()
        self._failing = FailureTimes()
        self._refused: tuple[RuleError, ...] = ()
        self._published = Published()
        self._recorders = Recorders()
        self._had: set[str] = set()
        """The recorded metrics that had a result since the start."""
        self._woken = Event()
        self._hurried = False
        self._hastened = 0
        self._stopped = False

    # Called by endpoints and streams.

    def accounts(self) -> Sequence[Family]:
        """See `RuleResults`."""
        files = [(path, error.reason) for path, error in self._files.errors.items()]
        errors = (*self._refused, *self._published.errors)
        return tuple(accounts.families(self._groups.accounts(), errors, files))

    def document(self, limit: int) -> Mapping[str, object]:
        """See `RuleResults`."""
        from agent.rules.groups import document  # for the page only

        published = self._current()
        files = [(path, *astuple(error)) for path, error in self._files.errors.items()]
        errors = (*self._refused, *published.errors)
        now = self._clock.wall() / 1000
        return document.document(
            self._groups.groups(), published.results, errors, files, now=now, limit=limit
        )

    def not_collected(self, collected: Iterable[Family]) -> Sequence[Family]:
        """See `RuleResults`."""
        taken = by_metric(collected)
        families = self._current().families
        self._notices.overridden(family.name for family in families if family.name in taken)
        return [family for family in families if family.name not in taken]

    def unread(self) -> Collection[str]:
        """See `RuleResults`."""
        return self._current().unread

    def lacks_input(self, series: Sequence[str]) -> bool | None:
        """See `RuleResults`."""
        recorders = self._recorders
        recorded = [name for name in series if recorders.records(name)]
        if not recorded:
            return None
        return all(recorders.lack_input(name, self._never_had) for name in recorded)

    def _never_had(self, series: str) -> bool:
        if series in self._had:
            return False
        return self._inputs.never_had(series, recorded=self._recorders.records(series))

    def failing(self) -> Mapping[FailingRule, float]:
        """See `RuleResults`."""
        return self._failing.at(self._clock.boot())

    def subscribe(
        self,
        subscriber: Hashable,
        metrics: Collection[str],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """See `RuleResults`. The rules behind these metrics are evaluated every second or two from now on."""
        self._subscribers.subscribe(subscriber, metrics, on_change)
        self._woken.set()

    def forget(self, subscriber: Hashable) -> None:
        """See `RuleResults`."""
        self._subscribers.forget(subscriber)
        self._woken.set()

    def hurry(self) -> None:
        """See `RuleResults`. At most once a second, however often sources change."""
        self._hurried = True
        self._woken.set()

    def sent(self, subscriber: Hashable) -> None:
        """See `RuleResults`."""
        self._subscribers.sent(subscriber, self._current())

    def _current(self) -> Published:
        """Return the latest results that are not too old."""
        published = self._published
        now = self._clock.boot()
        return published if now <= published.until else self._groups.published(now)

    # Evaluation.

    async def run(self) -> None:
        """Evaluate rules until cancelled."""
        Thread(target=self._work, name="rules", daemon=True).start()
        try:
            async with asyncio.TaskGroup() as work:
                if self._saver is not None:
                    work.create_task(self._save_periodically(self._saver))
                work.create_task(self._expire())
        finally:  # a thread cannot be cancelled: it checks flags
            self._stopped = True
            self._budget.cancel()
            self._woken.set()

    def _work(self) -> None:
        """Evaluate rules in a thread of their own: to involve the event loop in each step would cost as much as a few rules."""
        while not self._stopped:
            self._woken.clear()
            try:
                pause = self.step()
            except (StoppedError, CancelledError):  # the agent is stopping
                return
            except Exception:
                log.exception("rules cannot be evaluated")
                pause = _LOOK
            self._woken.wait(pause / 1000)

    async def _expire(self) -> None:
        """Notify subscribers of results that become too old during a long step, such as one with a hanging collector."""
        while True:
            left = self._published.until - self._clock.boot()
            await asyncio.sleep(min(max(left, SHORTEST), _EXPIRY) / 1000)
            if self._published.until < self._clock.boot():
                self._subscribers.notify(self._current())

    async def _save_periodically(self, saver: StateSaver) -> None:
        """Save the state file periodically, independent of evaluations: a disk may be slow."""
        try:
            while True:
                await asyncio.sleep(_SAVE)
                await asyncio.to_thread(self._save, saver)
        finally:
            await asyncio.to_thread(self._save, saver)

    def _save(self, saver: StateSaver) -> None:
        if not self._working.acquire(timeout=_PATIENCE):
            log.warning("samples for rules are not saved", reason="a collector hangs")
            return
        try:
            if self._saved is None:  # no rules were read yet
                return
            if not self._files.errors:  # otherwise their groups may return
                self._saved = {}
            snapshots = {**self._saved, **self._groups.snapshots()}
        finally:
            self._working.release()
        saver.save(snapshots)

    def step(self) -> int:
        """Do what is due. Blocking. Returns the milliseconds until the next call."""
        with self._working:
            return self._step()

    def _step(self) -> int:
        now = self._clock.boot()
        if self._looked is None or now // _LOOK > self._looked // _LOOK:
            self.look()
        self._groups.accelerate(self._subscribers.metrics, now)
        if self._hurried and now - self._hastened >= SHORTEST:
            self._hurried, self._hastened = False, now
            self._groups.hasten()
        due = self._groups.take(now)
        spent = self._evaluate(due) if due else 0.0
        self._note_failing()
        self._subscribers.notify(self._current())
        look = (now // _LOOK + 1) * _LOOK
        next_group = self._groups.next
        next_due = look if next_group is None else min(next_group, look)
        # Rules take at most half of a core, whatever they contain.
        return max(next_due - self._clock.boot(), round(spent * 1000))

    async def load(self) -> None:
        """See `RuleResults`."""
        try:
            await asyncio.to_thread(self.look)
        except asyncio.CancelledError:
            self._budget.cancel()
            raise

    def look(self) -> None:
        """Read changed rule files. Blocking."""
        self._looked = self._clock.boot()
        try:
            if (rule_file := self._files.look()) is not None:
                self._adopt(rule_file, self._looked)
        except CancelledError:
            raise
        except Exception:
            log.exception("rules cannot be read")
        self._note_failing()

    def _note_failing(self) -> None:
        errors = (*self._refused, *self._published.errors)
        self._failing.update(errors, self._files.errors, self._clock.boot())

    def _adopt(self, rule_file: RuleFile, now: int) -> None:
        self._refused = rule_file.errors
        if self._saved is None:
            self._saved = self._saver.load(now) if self._saver is not None else {}
        self._groups.adopt(rule_file.groups, now, self._saved)
        self._recorders = Recorders(rule_file.groups)
        self._published = self._groups.published(now)
        self._notices.read(rule_file)
        self._notices.short(self._short(rule_file.groups))

    def _evaluate(self, due: Sequence[Part]) -> float:
        """Evaluate due groups, as many as a step has time for. Returns the seconds it took, without reading the sources."""
        now, epoch = self._clock.boot(), self._clock.epoch()
        reuse = all(map(self._groups.is_accelerated, due))
        reading = self._inputs.read(self._groups.collectors(due), now, epoch, reuse=reuse)
        due = self._groups.ordered(due, reading.families)
        began, end = time.perf_counter(), self._clock.processor() + LONGEST_STEP
        for number, part in enumerate(due):
            begin, used = time.perf_counter(), self._clock.processor()
            if used > end:
                self._groups.postpone(due[number:])
                break
            try:
                self._notices.overridden(self._groups.evaluate(part, reading).overridden)
            except CancelledError:
                raise
            except Exception as error:
                log.exception("rule group raised an unexpected exception", group=part.group)
                self._groups.broke(part, now, f"{type(error).__name__}: {error}")
            self._groups.took(part, time.perf_counter() - begin, self._clock.processor() - used)
        self._groups.count(now)
        self._published = self._groups.published(now)
        self._had.update(self._published.results)
        self._notices.failing(self._published.errors)
        return time.perf_counter() - began
