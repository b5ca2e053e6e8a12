"""Evaluates one rule group on each tick: its samples, its rules in order, and their results.

A rule's results are published only if it could be evaluated. Missing results are `unread`, not absent, if they could not
be known: a source failed, a rule failed, or the group has had fewer than the two ticks that rates need.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agent.rules.groups import dependencies
from agent.rules.groups.file import Group, Rule, RuleError
from agent.rules.groups.tick import Tick, TickResult, unknown
from agent.rules.promql import labels
from agent.rules.promql.budget import SERIES, Budget, LimitError
from agent.rules.promql.labels import EMPTY, NAME, Labels
from agent.rules.promql.plan import Need
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.values import EvaluationError, Moment, Vector
from agent.rules.storage.head import Head
from agent.rules.storage.series import StoredSeries
from agent.rules.storage.shared_head import SharedHead
from agent.rules.storage.snapshot import Snapshot
from agent.rules.storage.store import FullError
from plimsoll.text import SentenceError

_FEW_TICKS = 2
# Raised by a defect in a function; the other rules of the group are unaffected.
_DEFECTS = (ArithmeticError, AssertionError, LookupError, RecursionError, TypeError, ValueError)
_KEPT = 1 << 12  # cached label sets of results per rule
# Bytes counted for a recorded series and for each of its labels: estimates that include what the exposition remembers.
_RESULT, _RESULT_LABEL = 600, 100
# Milliseconds for which a rule that exceeded a limit is not evaluated: doubled each time in a row, since failing takes time too.
_REST, _LONGEST_REST = 60_000, 16 * 60_000


@dataclass(slots=True)
class _Evaluation:
    """A rule and its state between evaluations."""

    rule: Rule
    key: str
    """Identifies the rule within its group."""
    sources: frozenset[str]
    renamed: dict[Labels, Labels] = field(default_factory=dict)
    held: int = 0
    """Bytes of its latest results and of the expression's caches."""
    limited: tuple[str, str] | None = None
    """The limit that it exceeded recently, and the error's text; an exception would keep its frames and their results."""
    resume: int = 0
    """Time (ms) at which it is evaluated again after that."""
    pause: int = _REST
    """Milliseconds until it is evaluated again if it exceeds a limit now."""

    def named(self, found: Labels) -> Labels:
        """Return a result's label set as recorded."""
        known = self.renamed.get(found)
        if known is None:
            if len(self.renamed) >= _KEPT:
                self.renamed.clear()
            changes = {NAME: self.rule.record, **dict(self.rule.labels)}
            known = self.renamed[found] = labels.replace(found, changes)
        return known

    def rest(self, error: LimitError, time: int) -> None:
        """Drop the rule's state and skip the rule for a while."""
        self.forget()
        self.resume = time + self.pause
        self.pause = min(2 * self.pause, _LONGEST_REST)
        self.limited = (error.reason, str(error))

    def forget(self) -> None:
        """Drop what is cached about series."""
        self.rule.expression.forget()
        self.renamed.clear()
        self.held = 0

    def is_doubtful(self, failed: Collection[str], doubtful: Iterable[str]) -> bool:
        """Return whether a source that it reads failed, or another rule's results are incomplete."""
        if not self.sources.isdisjoint(failed):
            return True
        return any(
            dependencies.may_name(need.selector, metric)
            for metric in doubtful
            for need in self.rule.expression.needs
        )


class RunningGroup:
    """A group with its results, and the samples that it shares with other groups. One thread at a time."""

    def __init__(
        self,
        group: Group,
        sources: Callable[[Iterable[Need]], frozenset[str]],
        shared: SharedHead,
        *,
        budget: Budget | None = None,
    ) -> None:
        """`sources`: returns the collectors for needed series. `shared`: the samples of groups with this one's interval."""
        self.group = group
        self._needs = dependencies.needs(group)
        self.history: Head | None = Head(self._needs, budget=budget)
        """The results that its rules read; None once it is stopped."""
        self.shared = shared
        shared.join(self, self._needs)
        self.sources = sources(self._needs)
        """The collectors to run for the group."""
        self.result = unknown(group, 0)
        """Its latest results."""
        self._doing = [
            _Evaluation(rule, key, sources(rule.expression.needs))
            for rule, key in zip(group.rules, _keys(group), strict=True)
        ]
        self._ticks = 0
        self.metrics = dependencies.recorded([group])
        """The metrics that it records."""

    @property
    def held(self) -> int:
        """Approximate bytes of the latest results and of the expressions' caches."""
        return sum([doing.held for doing in self._doing]) if self.history is not None else 0

    @property
    def taken(self) -> float:
        """Approximate bytes that it would take alone."""
        history = self.history
        return 0 if history is None else history.bytes + self.held + self.shared.taken(self)

    @property
    def ticks(self) -> int:
        """Return the number of evaluations so far."""
        return self._ticks

    def restore(self, snapshot: Snapshot, ticks: int = 0, *, limit: float = math.inf) -> None:
        """Start with the results of a snapshot and of so many ticks, before the first tick. Raises FullError."""
        self._ticks = ticks
        if self.history is not None:
            self.history.limit = limit
            self.history.restore(snapshot)

    def share(self, shared: SharedHead) -> None:
        """Use the samples of another interval from now on."""
        if self.history is not None and shared is not self.shared:
            shared.join(self, self._needs)
            self.shared.leave(self)
        self.shared = shared

    def tick(self, tick: Tick) -> TickResult:
        """Add the samples of a tick, evaluate every rule and return the results."""
        if self.history is None:
            return self.result
        try:
            self._fill(self.history, tick)
            self.result = self._evaluate(self.history, tick)
            self._ticks += 1
        except FullError as error:
            self.stop(tick.time, "memory", str(error))
        except (
            LimitError
        ) as error:  # new series take longest, and those already added are known the next time
            self.result = unknown(self.group, tick.time, self._errors(error.reason, str(error)))
        return self.result

    def stop(self, time: int, reason: str, text: str) -> TickResult:
        """Stop recording: results from part of the samples would be wrong."""
        self.history = None
        self.shared.leave(self)
        for doing in self._doing:
            doing.forget()
        self.result = unknown(self.group, time, self._errors(reason, text))
        return self.result

    def _errors(self, reason: str, text: str) -> tuple[RuleError, ...]:
        name = self.group.name
        return tuple(RuleError(name, rule.record, reason, text) for rule in self.group.rules)

    def _fill(self, history: Head, tick: Tick) -> None:
        shared = self.shared
        shared.begin(tick.time)
        shared.limit = tick.free - tick.reserve - history.bytes - self.held
        shared.fill(self, tick.families)
        history.limit = tick.free - shared.bytes - self.held
        history.begin(tick.time)
        for other in tick.others:
            for metric, vector in other.results.items():
                if history.needs(metric) and metric not in tick.collected:
                    for found, value in vector:
                        history.add(found, value)
        history.settle()

    def _evaluate(self, history: Head, tick: Tick) -> TickResult:
        storage = GroupStorage(history, self.shared)
        moment = Moment(storage, tick.time, tick.epoch, tick.step, tick.closed, tick.budget)
        results: dict[str, Vector] = {}
        errors: list[RuleError] = []
        doubtful = {metric for other in tick.others for metric in other.doubtful}
        held, taken = self.held, history.bytes + self.shared.bytes
        for doing in self._doing:
            rule = doing.rule
            if doing.is_doubtful(tick.failed, doubtful):
                doubtful.add(rule.record)
            others = held - doing.held
            try:
                left = tick.free - taken - others
                free = max(left - tick.reserve, min(left, doing.held))
                vector = self._results(doing, moment, free)
                held = others + doing.held
            except _RuleFailedError as error:
                held = others + doing.held
                errors.append(RuleError(self.group.name, rule.record, error.reason, str(error)))
                doubtful.add(rule.record)
                history.hold(doing.key)
                continue
            if rule.record in tick.collected:
                vector = []
            if history.record(doing.key, vector):
                taken = history.bytes + self.shared.bytes
            if vector:
                results[rule.record] = results.get(rule.record, []) + vector
        history.end()
        own = self.metrics
        missing = own - results.keys()
        unread = missing if self._ticks + 1 < _FEW_TICKS else missing & doubtful
        overridden = own.intersection(tick.collected)
        return TickResult(tick.time, results, unread, own & doubtful, tuple(errors), overridden)

    def _results(self, doing: _Evaluation, moment: Moment, free: float) -> Vector:
        if doing.limited is not None and moment.time < doing.resume:
            raise _RuleFailedError(*doing.limited)
        doing.limited = None
        budget = moment.budget
        try:
            budget.start_rule(free)
            for need in doing.rule.expression.needs:
                # Before the evaluation, which takes at least this: many rules over many series would keep others waiting.
                budget.must_have(SERIES * len(moment.storage.select(need.selector)))
            vector = self._evaluated(doing, moment)
            budget.take(sum([_RESULT + _RESULT_LABEL * len(found) for found, _ in vector]))
        except LimitError as error:
            if not budget.group_is_over:
                doing.rest(error, moment.time)
            raise _RuleFailedError(error.reason, str(error)) from error
        doing.held = budget.used
        doing.pause = _REST
        return vector

    def _evaluated(self, doing: _Evaluation, moment: Moment) -> Vector:
        try:
            value = doing.rule.expression.evaluate(moment)
        except EvaluationError as error:
            raise _RuleFailedError("evaluation", str(error)) from error
        except _DEFECTS as error:
            raise _RuleFailedError("evaluation", f"{type(error).__name__}: {error}") from error
        assert not isinstance(value, str)  # rejected when the rule was read
        vector = value if isinstance(value, list) else [(EMPTY, value)]
        if self.group.limit and len(vector) > self.group.limit:
            text = f"{len(vector)} series are more than the limit of {self.group.limit}"
            raise _RuleFailedError("limit", text)
        named = [(doing.named(found), number) for found, number in vector]
        if len({found for found, _ in named}) < len(named):
            text = "its labels make one series of several"
            raise _RuleFailedError("evaluation", text)
        return named


def _keys(group: Group) -> list[str]:
    """Return a key for each rule: its metric, numbered if several rules record it."""
    seen = Counter[str]()
    keys = []
    for rule in group.rules:
        seen[rule.record] += 1
        keys.append(f"{rule.record} {seen[rule.record]}")
    return keys


class _RuleFailedError(SentenceError):
    """A rule has no results on a tick."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class GroupStorage:
    """The storage of a group (a `values.Storage`)."""

    results: Head
    collected: SharedHead

    def select(self, selector: Selector) -> Sequence[StoredSeries]:
        """See `values.Storage`. Of a series that was collected and recorded in turn, the current one counts."""
        collected, results = self.collected.select(selector), self.results.select(selector)
        if not results:
            return collected
        if not collected:
            return results
        found = {series.labels: series for series in results}
        for series in collected:
            if series.live or series.labels not in found:
                found[series.labels] = series
        return list(found.values())
