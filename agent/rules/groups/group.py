"""One rule group at work: its samples, its rules in order, and what came out of them at a tick.

A rule's results are published only if nothing kept it from being evaluated. What is missing is `unread`, not absent, where it
could not be known: a source failed, a rule failed, or the group has not seen two ticks yet, which is what rates take.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from agent.rules.groups import dependencies
from agent.rules.groups.file import Group, Rule, RuleError
from agent.rules.promql import labels
from agent.rules.promql.budget import Budget, LimitError
from agent.rules.promql.expression import Expression, parse
from agent.rules.promql.labels import EMPTY, NAME, Labels
from agent.rules.promql.plan import Need
from agent.rules.promql.values import EvaluationError, Moment, Vector
from agent.rules.storage.head import FullError, Head
from agent.rules.storage.snapshot import Snapshot
from collectors.base.sample import Family
from plimsoll.text import SentenceError

_FEW_TICKS = 2
# What a mistake of ours in a function raises: the other rules of the group know nothing of it.
_DEFECTS = (ArithmeticError, AssertionError, LookupError, RecursionError, TypeError, ValueError)
_KEPT = 1 << 12  # label sets of results that are remembered, by each rule
# Bytes counted for a recorded series and for each of its labels: estimates that include what the exposition remembers.
_RESULT, _RESULT_LABEL = 600, 100
_REST = 60_000  # milliseconds for which a rule that exceeded a limit is not evaluated

Results = Mapping[str, Vector]
"""What was recorded, by metric; the label sets are whole. Of a series that comes twice, the first one counts."""


@dataclass(frozen=True, slots=True)
class TickResult:
    """What a group says since a tick."""

    time: int
    """The tick, in milliseconds."""
    results: Results
    unread: frozenset[str] = frozenset()
    """Metrics without a result of which nothing is known."""
    doubtful: frozenset[str] = frozenset()
    """Metrics for which something was missing; there may be results all the same."""
    errors: tuple[RuleError, ...] = ()
    overridden: frozenset[str] = frozenset()
    """Metrics that were collected, and so not recorded."""


def unknown(group: Group, time: int, errors: tuple[RuleError, ...] = ()) -> TickResult:
    """What a group says of which nothing is known at this time."""
    metrics = dependencies.recorded([group])
    return TickResult(time, {}, metrics, metrics, errors)


@dataclass(frozen=True, slots=True)
class Tick:
    """What a group is evaluated over."""

    time: int
    """Milliseconds on the clock of the samples."""
    epoch: int
    """Milliseconds to add for Unix time."""
    step: int
    """Milliseconds between the steps of a subquery that does not say its own."""
    families: tuple[Family, ...]
    collected: Collection[str]
    """The metrics among them, and all others that collectors export: nothing is recorded under their names."""
    failed: frozenset[str] = frozenset()
    """Collectors that could not read their source."""
    others: Iterable[TickResult] = ()
    """What other groups said last."""
    budget: Budget = field(default_factory=Budget)
    free: float = math.inf
    """Bytes that samples and results of this group may take."""


@dataclass(slots=True)
class _Evaluation:
    """One rule, with what is remembered of it."""

    rule: Rule
    key: str
    """What tells it from the others of its group."""
    sources: frozenset[str]
    inputs: tuple[Need, ...]
    expression: Expression
    renamed: dict[Labels, Labels] = field(default_factory=dict)
    held: int = 0
    """Bytes of its latest results, and of what its expression remembers."""
    limited: "_RuleFailedError | None" = None
    """The limit that it exceeded lately."""
    resume: int = 0
    """The time (ms) from which it is evaluated again after that."""

    def named(self, found: Labels) -> Labels:
        """A result's label set as the rule records it."""
        known = self.renamed.get(found)
        if known is None:
            if len(self.renamed) >= _KEPT:
                self.renamed.clear()
            changes = {NAME: self.rule.record, **dict(self.rule.labels)}
            known = self.renamed[found] = labels.replace(found, changes)
        return known

    def rest(self, error: LimitError, time: int) -> "_RuleFailedError":
        """Give up what it remembers, and leave it out for a while."""
        self.expression = parse(self.rule.expression.text)
        self.renamed.clear()
        self.held, self.resume = 0, time + _REST
        self.limited = _RuleFailedError(error.reason, str(error))
        return self.limited

    def is_doubtful(self, failed: Collection[str], doubtful: Iterable[str]) -> bool:
        """Whether a source failed that it looks at, or something is missing of another rule's results."""
        if not self.sources.isdisjoint(failed):
            return True
        return any(
            dependencies.may_name(need.selector, metric)
            for metric in doubtful
            for need in self.inputs
        )


class RunningGroup:
    """A group, with the history of what it looks at. One thread at a time."""

    def __init__(
        self,
        group: Group,
        history: Head,
        sources: Callable[[Iterable[Need]], frozenset[str]],
    ) -> None:
        """`sources`: the collectors that serve needs."""
        self.group = group
        self.history: Head | None = history
        self.sources = sources(dependencies.needs(group))
        """The collectors to run for it."""
        self.outcome = unknown(group, 0)
        """What it said last."""
        self._doing = [
            _Evaluation(
                rule, key, sources(rule.expression.needs), rule.expression.needs, rule.expression
            )
            for rule, key in zip(group.rules, _keys(group), strict=True)
        ]
        self._ticks = 0

    @property
    def held(self) -> int:
        """Bytes of the latest results, and of what expressions remember, about."""
        return sum(doing.held for doing in self._doing) if self.history is not None else 0

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with the samples that another history held, before the first tick."""
        if self.history is not None:
            try:
                self.history.restore(snapshot)
            except FullError as error:
                self.stop(0, "memory", str(error))

    def tick(self, tick: Tick) -> TickResult:
        """Take in what was read, evaluate every rule, and say what came out."""
        if self.history is None:
            return self.outcome
        try:
            self._fill(self.history, tick)
            self.outcome = self._evaluate(self.history, tick)
            self._ticks += 1
        except FullError as error:
            self.stop(tick.time, "memory", str(error))
        except (
            LimitError
        ) as error:  # new series take longest, and those that were added are known next time
            self.outcome = unknown(self.group, tick.time, self._errors(error.reason, str(error)))
        return self.outcome

    def stop(self, time: int, reason: str, text: str) -> TickResult:
        """Record nothing any longer: an answer from a part of the samples would be a wrong one."""
        self.history = None
        for doing in self._doing:
            doing.expression = doing.rule.expression
            doing.renamed.clear()
        self.outcome = unknown(self.group, time, self._errors(reason, text))
        return self.outcome

    def _errors(self, reason: str, text: str) -> tuple[RuleError, ...]:
        name = self.group.name
        return tuple(RuleError(name, rule.record, reason, text) for rule in self.group.rules)

    def _fill(self, history: Head, tick: Tick) -> None:
        history.begin(tick.time)
        for family in tick.families:
            if family.type in {"histogram", "summary"} or history.needs(family.name):
                history.add_family(family.samples)
        for other in tick.others:
            for metric, vector in other.results.items():
                if history.needs(metric) and metric not in tick.collected:
                    for found, value in vector:
                        history.add(found, value)
        history.settle()

    def _evaluate(self, history: Head, tick: Tick) -> TickResult:
        moment = Moment(history, tick.time, tick.epoch, tick.step, tick.budget)
        results: dict[str, Vector] = {}
        errors: list[RuleError] = []
        doubtful = {metric for other in tick.others for metric in other.doubtful}
        held = self.held
        for doing in self._doing:
            rule = doing.rule
            if doing.is_doubtful(tick.failed, doubtful):
                doubtful.add(rule.record)
            others = held - doing.held
            try:
                vector = self._results(doing, moment, tick.free - history.bytes - others)
                held = others + doing.held
            except _RuleFailedError as error:
                held = others + doing.held
                errors.append(RuleError(self.group.name, rule.record, error.reason, str(error)))
                doubtful.add(rule.record)
                history.hold(doing.key)
                continue
            if rule.record in tick.collected:
                vector = []
            history.record(doing.key, vector)
            if vector:
                results[rule.record] = results.get(rule.record, []) + vector
        history.end()
        own = dependencies.recorded([self.group])
        missing = own - results.keys()
        unread = missing if self._ticks + 1 < _FEW_TICKS else missing & doubtful
        overridden = own.intersection(tick.collected)
        return TickResult(tick.time, results, unread, own & doubtful, tuple(errors), overridden)

    def _results(self, doing: _Evaluation, moment: Moment, free: float) -> Vector:
        if doing.limited is not None and moment.time < doing.resume:
            raise doing.limited
        doing.limited = None
        budget = moment.budget
        try:
            budget.start_rule(free)
            vector = self._evaluated(doing, moment)
            budget.take(sum([_RESULT + _RESULT_LABEL * len(found) for found, _ in vector]))
        except LimitError as error:
            if budget.group_is_over:
                raise _RuleFailedError(error.reason, str(error)) from error
            raise doing.rest(error, moment.time) from error
        doing.held = budget.used
        return vector

    def _evaluated(self, doing: _Evaluation, moment: Moment) -> Vector:
        try:
            value = doing.expression.evaluate(moment)
        except EvaluationError as error:
            raise _RuleFailedError("evaluation", str(error)) from error
        except _DEFECTS as error:
            raise _RuleFailedError("evaluation", f"{type(error).__name__}: {error}") from error
        assert not isinstance(value, str)  # refused when it was read
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
    """A rule's metric, and where several record it, which of them it is."""
    seen = Counter[str]()
    keys = []
    for rule in group.rules:
        seen[rule.record] += 1
        keys.append(f"{rule.record} {seen[rule.record]}")
    return keys


class _RuleFailedError(SentenceError):
    """A rule that has no results at a tick."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
