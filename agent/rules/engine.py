"""Evaluates rule groups over this node's samples, each at its interval, and publishes their results.

One thread at a time works off the event loop: it looks for changed rule files, runs the collectors that the due groups
need, once for all, and evaluates the groups in order. Requests and streams read the last published result, which is
immutable.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from threading import Lock

from agent.rules.clock import Clock
from agent.rules.files import RuleFileReader
from agent.rules.groups import dependencies
from agent.rules.groups import metrics as accounts
from agent.rules.groups.file import RuleError, RuleFile
from agent.rules.groups.manager import GroupManager, TickInputs, metrics_of
from agent.rules.groups.metrics import GroupAccount
from agent.rules.groups.results import Published
from agent.rules.log import ErrorLog
from agent.rules.options import RuleOptions
from agent.rules.promql.budget import Budget, CancelledError
from agent.rules.promql.plan import Need
from agent.rules.state_saver import StateSaver
from agent.rules.storage.snapshot import Snapshot
from agent.rules.subscribers import Subscribers
from agent.scrape import runner
from agent.scrape.runner import CollectorRunner
from collectors.base.sample import Family
from plimsoll import logs
from plimsoll.threads import StoppedError
from plimsoll.wakeup import WakeUp

log = logs.get(__name__)

_LOOK = 1_000
"""Milliseconds between two checks for changed rule files."""
_SAVE = 60.0
"""Seconds between two saves of the state file."""
_PATIENCE = 3.0
"""Seconds that a save waits for the current evaluation, which may be waiting for a collector."""
_GROUP_TIMEOUT = 5  # times --rules.timeout
_ACCOUNTS = frozenset(metric.name for metric in runner.METRICS)


Account = tuple[Sequence[GroupAccount], Sequence[RuleError], Sequence[tuple[str, str]]]
"""Groups, failing rules, and unusable files with the reason: see `groups.metrics`."""


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
        self._runner = sources
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
            sources=self._sources,
            budget=self._budget,
        )
        self._subscribers = Subscribers(options.notable_change)
        self._notices = ErrorLog()
        self._refused: tuple[RuleError, ...] = ()
        self._published = Published()
        self._account: Account = ((), (), ())
        self._woken: Callable[[], None] = lambda: None

    # Called by endpoints and streams.

    def accounts(self) -> Sequence[Family]:
        """See `RuleResults`."""
        return tuple(accounts.families(*self._account))

    def not_collected(self, collected: Iterable[Family]) -> Sequence[Family]:
        """See `RuleResults`."""
        taken = metrics_of(collected)
        found = self._current().families
        self._notices.overridden(family.name for family in found if family.name in taken)
        return [family for family in found if family.name not in taken]

    def unread(self) -> Collection[str]:
        """See `RuleResults`."""
        return self._current().unread

    def subscribe(
        self,
        subscriber: Hashable,
        metrics: Collection[str],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """See `RuleResults`. Groups that record these metrics are evaluated every second from now on."""
        self._subscribers.subscribe(subscriber, metrics, on_change)
        self._woken()

    def forget(self, subscriber: Hashable) -> None:
        """See `RuleResults`."""
        self._subscribers.forget(subscriber)
        self._woken()

    def sent(self, subscriber: Hashable) -> None:
        """See `RuleResults`."""
        self._subscribers.sent(subscriber, self._current().numbers)

    def _current(self) -> Published:
        """Return the latest results that are not too old."""
        found = self._published
        now = self._clock.boot()
        return found if now <= found.until else self._groups.published(now)

    # Evaluation.

    async def run(self) -> None:
        """Evaluate rules until cancelled."""
        loop = asyncio.get_running_loop()
        woken = WakeUp()
        self._woken = lambda: _set(loop, woken)
        async with asyncio.TaskGroup() as work:
            if self._saver is not None:
                work.create_task(self._save_periodically(self._saver))
            work.create_task(self._repeat(woken))

    async def _repeat(self, woken: WakeUp) -> None:
        try:
            await self._step_forever(woken)
        finally:  # a thread cannot be cancelled: it checks a flag
            self._budget.cancel()

    async def _step_forever(self, woken: WakeUp) -> None:
        while True:
            woken.clear()
            try:
                pause = await self._notifying(asyncio.to_thread(self.step))
            except (StoppedError, CancelledError):  # the agent is stopping
                return
            except Exception:
                log.exception("rules cannot be evaluated")
                pause = _LOOK
            await woken.wait(pause / 1000)

    async def _notifying(self, step: Coroutine[None, None, int]) -> int:
        """Notify subscribers also during a long step, in which a hanging collector lets results become too old."""
        task = asyncio.create_task(step)
        try:
            while not (await asyncio.wait([task], timeout=_LOOK / 1000))[0]:
                self._subscribers.notify(self._current().numbers)
            return await task
        finally:
            task.cancel()

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
        if self._looked is None or now - self._looked >= _LOOK:
            self.look()
        self._groups.accelerate(self._subscribers.metrics, now)
        due = self._groups.take(now)
        spent = self._evaluate(due) if due else 0.0
        self._subscribers.notify(self._current().numbers)
        self._account = self._sum_up(now)
        next_due = min(self._groups.next or now + _LOOK, (self._looked or now) + _LOOK)
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

    def _adopt(self, rule_file: RuleFile, now: int) -> None:
        self._refused = rule_file.errors
        if self._saved is None:
            self._saved = self._saver.load(now) if self._saver is not None else {}
        self._groups.adopt(rule_file.groups, now, self._saved)
        self._published = self._groups.published(now)
        self._notices.read(rule_file)

    def _sources(self, needed: Iterable[Need]) -> frozenset[str]:
        return dependencies.collectors(needed, self._runner.serving, self._runner.names, _ACCOUNTS)

    def _evaluate(self, due: Sequence[str]) -> float:
        """Evaluate due groups. Returns the seconds it took, without reading the sources."""
        now, epoch = self._clock.boot(), self._clock.epoch()
        found = self._runner.run(self._groups.collectors(due))
        collected = metrics_of(found.families)
        reading = TickInputs(now, epoch, found.families, found.failed, collected)
        began = time.perf_counter()
        for name in due:
            begin = time.perf_counter()
            try:
                self._notices.overridden(self._groups.evaluate(name, reading).overridden)
            except CancelledError:
                raise
            except Exception as error:
                log.exception("rule group is broken", group=name)
                self._groups.broke(name, now, f"{type(error).__name__}: {error}")
            self._groups.took(name, time.perf_counter() - begin)
        self._published = self._groups.published(now)
        self._notices.failing(self._published.errors)
        return time.perf_counter() - began

    def _sum_up(self, now: int) -> Account:
        files = [(path, error.reason) for path, error in self._files.errors.items()]
        errors = (*self._refused, *self._published.errors)
        return self._groups.accounts(now), errors, files


def _set(loop: asyncio.AbstractEventLoop, event: WakeUp) -> None:
    with contextlib.suppress(RuntimeError):  # the agent has stopped
        loop.call_soon_threadsafe(event.set)
