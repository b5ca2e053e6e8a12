"""Evaluates the rule groups over this node's own samples, each at its pace, and publishes what they record.

One thread at a time does the work, off the event loop: it looks for changed rule files, runs the collectors that the groups
which are due need, once for all of them, and evaluates these groups in order. Whoever serves a request or a stream reads
what was published last, which never changes.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass

from agent import rounds
from agent.rounds import Rounds
from agent.rules import accounts, needs, published
from agent.rules.accounts import GroupAccount
from agent.rules.evaluation import Outcome, RunningGroup, Tick
from agent.rules.expressions import Need
from agent.rules.followers import Followers
from agent.rules.groups import SHORTEST, Group, RuleError, RuleFile
from agent.rules.history import History
from agent.rules.options import RuleOptions
from agent.rules.published import Published
from agent.rules.rulefiles import RuleFiles
from agent.rules.schedule import Schedule
from collectors.sample import Family
from plimsoll import logs
from plimsoll.runner import StoppedError

log = logs.get(__name__)

_LOOK = 1_000
"""Milliseconds between two looks for changed rule files."""
_COUNT = 15_000
"""Milliseconds between two counts of the samples that are kept."""
_ACCOUNTS = frozenset(metric.name for metric in rounds.METRICS)
_PARTS = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Clock:
    """Milliseconds since the machine was started, which never go back, and in Unix time."""

    boot: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    wall: Callable[[], int] = lambda: time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Course:
    """A group at work, and how it goes."""

    running: RunningGroup
    interval: int
    """Its own, in milliseconds."""
    duration: float = 0.0
    timestamp: float | None = None
    missed: int = 0
    samples: int = 0
    counted: int | None = None


class Recorder:
    """The rules of some files. Any thread may call what is public; `step` and `run` by one at a time."""

    def __init__(
        self, sources: Rounds, options: RuleOptions, *, clock: Clock | None = None
    ) -> None:
        self._rounds = sources
        self._options = options
        self._clock = clock or Clock()
        self._files = RuleFiles(options.files)
        self._looked: int | None = None
        self._courses: dict[str, _Course] = {}
        self._dependencies: Mapping[str, frozenset[str]] = {}
        self._schedule = Schedule({}, 0)
        self._refused: tuple[RuleError, ...] = ()
        self._failing: frozenset[RuleError] = frozenset()
        self._published = Published()
        self._accounts: tuple[Family, ...] = ()
        self._followers = Followers(options.notable_change)
        self._overridden: set[str] = set()
        self._woken: Callable[[], None] = lambda: None

    # What others ask.

    def current(self) -> Published:
        """The latest results that are not too old."""
        found = self._published
        now = self._clock.boot()
        return found if now <= found.until else self._gather(now)

    def beside(self, collected: Iterable[Family]) -> tuple[Family, ...]:
        """What is recorded, but for metrics that are collected: those count, whole."""
        taken = metrics_of(collected)
        found = self.current().families
        self._say_overridden(family.name for family in found if family.name in taken)
        return tuple(family for family in found if family.name not in taken)

    def accounts(self) -> tuple[Family, ...]:
        """What the rules say about themselves."""
        return self._accounts

    def subscribe(self, who: Hashable, metrics: Collection[str]) -> None:
        """Somebody wants these metrics, in place of those before: what records them is evaluated each second."""
        self._followers.subscribe(who, metrics)
        self._woken()

    def forget(self, who: Hashable) -> None:
        """Somebody wants nothing any longer."""
        self._followers.forget(who)
        self._woken()

    def unread(self) -> frozenset[str]:
        """Recorded metrics without a result, of which nothing is known."""
        return self.current().unread

    def sent(self, who: Hashable) -> None:
        """Somebody is told now what there is."""
        self._followers.sent(who, self.current().numbers)

    def following(self, who: Hashable) -> Hashable:
        """Changes when a metric that somebody wants moved notably since it was `sent`, appeared or vanished."""
        return self._followers.following(who, self.current().numbers)

    # The work.

    async def run(self) -> None:
        """Evaluate until cancelled."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        self._woken = lambda: _set(loop, woken)
        while True:
            woken.clear()
            try:
                pause = await asyncio.to_thread(self.step)
            except StoppedError:  # the collectors are closed: the agent ends
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause / 1000):
                    await woken.wait()

    def step(self) -> int:
        """Do what is due now. Blocking. Returns in how many milliseconds to come again."""
        now = self._clock.boot()
        if self._looked is None or now - self._looked >= _LOOK:
            self.look()
        self._schedule.accelerate(self._wanted(), now)
        due = self._schedule.take(now)
        if due:
            self._evaluate(due)
        self._account()
        after = self._clock.boot()
        following = [(self._looked or 0) + _LOOK]
        if self._schedule.next is not None:
            following.append(self._schedule.next)
        return max(min(following) - after, 0)

    def look(self) -> None:
        """Read rule files that changed. Blocking."""
        self._looked = self._clock.boot()
        if (said := self._files.look()) is not None:
            self._adopt(said, self._looked)

    def _adopt(self, said: RuleFile, now: int) -> None:
        """Go on with other rules; groups keep the samples that they still need."""
        for error in said.errors:
            log.error(
                "rule is left out",
                group=error.group,
                rule=error.rule,
                kind=error.reason,
                reason=error.text,
            )
        for note in said.notes:
            log.info("rules", note=note)
        before = self._courses
        self._refused = said.errors
        self._courses = {}
        for group in needs.ordered(said.groups):
            known = before.get(group.name)
            history = known.running.history if known is not None else None
            if known is not None and history is not None and known.running.group == group:
                self._courses[group.name] = known
                continue
            course = self._courses[group.name] = self._course(group)
            if history is not None:
                course.running.restore(history.snapshot())
        self._schedule = Schedule({n: c.interval for n, c in self._courses.items()}, now)
        self._dependencies = needs.dependencies(said.groups)
        self._published = self._gather(now)
        log.info(
            "rules are in force",
            groups=len(self._courses),
            rules=sum(len(group.rules) for group in said.groups),
            left_out=len(said.errors),
        )

    def _course(self, group: Group) -> _Course:
        history = History(needs.needs(group), limit=self._options.max_memory)
        interval = group.interval or round(self._options.interval * 1000)
        return _Course(RunningGroup(group, history, self._sources), max(interval, SHORTEST))

    def _sources(self, needed: Iterable[Need]) -> frozenset[str]:
        return needs.collectors(needed, self._rounds.serving, self._rounds.names, _ACCOUNTS)

    def _wanted(self) -> frozenset[str]:
        """The groups that somebody subscribes to, and those whose results these look at."""
        names = self._followers.metrics
        groups = (course.running.group for course in self._courses.values())
        first = [group.name for group in groups if not names.isdisjoint(needs.recorded([group]))]
        return needs.closure(first, self._dependencies) if first else frozenset()

    def _evaluate(self, due: Mapping[str, int]) -> None:
        courses = [course for name, course in self._courses.items() if name in due]
        began = self._clock.boot()
        epoch = self._clock.wall() - began
        wanted = frozenset[str]().union(*(course.running.sources for course in courses))
        found = self._rounds.run(wanted)
        collected = metrics_of(found.families)
        for course in courses:
            name = course.running.group.name
            course.missed += due[name]
            others = tuple(
                other.running.outcome
                for other in self._courses.values()
                if other is not course and began - other.running.outcome.time <= 3 * other.interval
            )
            tick = Tick(
                began,
                epoch,
                course.interval,
                found.families,
                collected,
                found.failed,
                others,
            )
            self._tick(course, tick)
        self._published = self._gather(began)
        self._say_failing(self._published.errors)

    def _tick(self, course: _Course, tick: Tick) -> None:
        begin = time.perf_counter()
        running = course.running
        self._say_overridden(running.tick(tick).overridden)
        total = sum(_bytes(other.running) for other in self._courses.values())
        if total > self._options.max_memory:
            running.stop(tick.time, "memory", f"all samples would take {total} bytes")
        course.duration = time.perf_counter() - begin
        course.timestamp = (tick.time + tick.epoch) / 1000

    def _gather(self, now: int) -> Published:
        said: list[tuple[Group, int, Outcome]] = [
            (course.running.group, course.interval, course.running.outcome)
            for course in self._courses.values()
        ]
        return published.publish(said, now)

    # What is said of it.

    def _say_failing(self, errors: Iterable[RuleError]) -> None:
        """One line when a rule begins to fail, and one when it works again."""
        now = frozenset(errors)
        known = {error[:3] for error in self._failing}
        for error in sorted(now):
            if error[:3] not in known:
                log.error(
                    "rule fails",
                    group=error.group,
                    rule=error.rule,
                    kind=error.reason,
                    reason=error.text,
                )
        for group, rule, reason in sorted(known - {error[:3] for error in now}):
            log.info("rule works again", group=group, rule=rule, kind=reason)
        self._failing = now

    def _say_overridden(self, metrics: Iterable[str]) -> None:
        for metric in metrics:
            if metric not in self._overridden:
                self._overridden.add(metric)
                log.warning(
                    "a recorded metric is collected too, the collected one counts", metric=metric
                )

    def _account(self) -> None:
        listed = [self._row(name, course) for name, course in self._courses.items()]
        errors = (*self._refused, *self._published.errors)
        files = [(path, error.reason) for path, error in self._files.errors.items()]
        self._accounts = tuple(accounts.families(listed, errors, files))

    def _row(self, name: str, course: _Course) -> GroupAccount:
        history = course.running.history
        now = self._clock.boot()
        if history is None:
            course.samples = 0
        elif course.counted is None or now - course.counted >= _COUNT:
            course.samples, course.counted = history.samples, now
        return GroupAccount(
            group=name,
            rules=len(course.running.group.rules),
            interval=self._schedule.interval(name) / 1000,
            duration=course.duration,
            timestamp=course.timestamp,
            missed=course.missed,
            series=history.series if history is not None else 0,
            samples=course.samples,
            bytes=_bytes(course.running),
        )


def metrics_of(families: Iterable[Family]) -> frozenset[str]:
    """The names of these families, and of all samples that they may have."""
    found: set[str] = set()
    for family in families:
        found.add(family.name)
        if family.type in {"histogram", "summary"}:
            found.update(family.name + part for part in _PARTS)
    return frozenset(found)


def _bytes(running: RunningGroup) -> int:
    return running.history.bytes if running.history is not None else 0


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the agent has stopped
        loop.call_soon_threadsafe(event.set)
