"""Dependencies of rule groups: other groups, collectors, and the order of evaluation."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from agent.metric_names import families_of
from agent.rules.groups.file import Group, Rule
from agent.rules.promql.labels import NAME
from agent.rules.promql.plan import Need
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.values import LOOKBACK

_MOST_STEPS = 50
"""Rules that read one another's results, one after the other, over which an input that is not there is looked for."""

Serving = Callable[[Collection[str]], Collection[str]]
"""Returns the collectors that can yield one of these metrics."""


def needs(group: Group) -> tuple[Need, ...]:
    """Return all series that a group's expressions read."""
    return tuple(dict.fromkeys(need for rule in group.rules for need in rule.expression.needs))


def may_name(selector: Selector, metric: str) -> bool:
    """Return whether a selector may match series of this metric."""
    if selector.metric:
        return selector.metric == metric
    return all(matcher(metric) for matcher in selector.matchers if matcher.name == NAME)


def recorded(groups: Iterable[Group]) -> frozenset[str]:
    """Return the metrics that groups record."""
    return frozenset(rule.record for group in groups for rule in group.rules)


def shared(groups: Iterable[Group]) -> frozenset[str]:
    """Return the metrics that several rules record."""
    rules = Counter(rule.record for group in groups for rule in group.rules)
    return frozenset(metric for metric, number in rules.items() if number > 1)


def dependencies(groups: Sequence[Group]) -> Mapping[str, frozenset[str]]:
    """Return, for each group, the names of the other groups whose results it reads."""
    recording: dict[str, set[str]] = {}
    for group in groups:
        for metric in recorded([group]):
            recording.setdefault(metric, set()).add(group.name)

    @cache
    def looked_at(selector: Selector) -> frozenset[str]:
        if selector.metric:
            return frozenset(recording.get(selector.metric, ()))
        seen = [names for metric, names in recording.items() if may_name(selector, metric)]
        return frozenset[str]().union(*seen)

    return {
        group.name: frozenset[str]().union(*(looked_at(need.selector) for need in needs(group)))
        - {group.name}
        for group in groups
    }


def excerpts(groups: Sequence[Group], metrics: Collection[str]) -> Mapping[str, Group]:
    """Return, by group, the rules that record these metrics and all rules whose results these read, directly or indirectly."""
    rules: dict[str, list[tuple[str, int]]] = {}
    for group in groups:
        for number, rule in enumerate(group.rules):
            rules.setdefault(rule.record, []).append((group.name, number))
    by_name = {group.name: group for group in groups}
    left = [metric for metric in rules if metric in metrics]
    seen = set(left)
    numbers_by_name: dict[str, set[int]] = {}
    while left:
        for name, number in rules[left.pop()]:
            numbers_by_name.setdefault(name, set()).add(number)
            for need in by_name[name].rules[number].expression.needs:
                more = [m for m in rules if m not in seen and may_name(need.selector, m)]
                seen.update(more)
                left += more
    return {
        name: replace(
            by_name[name], rules=tuple(by_name[name].rules[number] for number in sorted(numbers))
        )
        for name, numbers in numbers_by_name.items()
    }


def is_short(group: Group, groups: Sequence[Group]) -> bool:
    """Return whether a group looks back for minutes at most, and at collected series only."""
    metrics = recorded(groups)
    return all(
        need.reach <= LOOKBACK and not any(may_name(need.selector, metric) for metric in metrics)
        for need in needs(group)
        if need.reach
    )


def ordered(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return groups in order of evaluation: after the groups they read, otherwise as given. A cycle starts at its first group."""
    by_name = {group.name: group for group in groups}
    order = {name: number for number, name in enumerate(by_name)}
    reads = dependencies(groups)
    in_order: dict[str, Group] = {}
    for first in groups:
        if first.name in in_order:
            continue
        # An explicit stack: a chain may be longer than Python's recursion limit.
        path = [first.name]
        visiting = {first.name}
        while path:
            name = path[-1]
            left = reads[name] - in_order.keys() - visiting
            ahead = min(left, key=order.__getitem__, default=None)
            if ahead is None:
                in_order.setdefault(path.pop(), by_name[name])
            else:
                path.append(ahead)
                visiting.add(ahead)
    return tuple(in_order.values())


def closure(names: Iterable[str], reads: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return these groups and all whose results they read, directly or indirectly."""
    reached: set[str] = set()
    left = set(names)
    while left:
        name = left.pop()
        reached.add(name)
        left |= reads.get(name, frozenset()) - reached
    return frozenset(reached)


def collectors(
    needed: Iterable[Need], serving: Serving, enabled: Collection[str], accounts: Collection[str]
) -> frozenset[str]:
    """Return the collectors to run for these series. `accounts`: metrics about collectors, with the label `collector`."""
    to_run: set[str] = set()
    for need in needed:
        selector = need.selector
        if not selector.metric:
            to_run.update(enabled)  # may match any metric
        elif selector.metric in accounts:
            about = [matcher for matcher in selector.matchers if matcher.name == "collector"]
            to_run.update(name for name in enabled if all(matcher(name) for matcher in about))
        else:
            to_run.update(serving(families_of(selector.metric)))
    return frozenset(to_run)


class Recorders:
    """The rules that record each metric, and which of their inputs the node has never had."""

    def __init__(self, groups: Iterable[Group] = ()) -> None:
        self._rules: dict[str, list[Rule]] = {}
        for group in groups:
            for rule in group.rules:
                self._rules.setdefault(rule.record, []).append(rule)

    def records(self, metric: str) -> bool:
        """Return whether a rule records a metric."""
        return metric in self._rules

    def lack_input(self, metric: str, never_had: Callable[[str], bool]) -> bool:
        """Return whether each rule that records a metric reads a series that the node has never had, directly or indirectly.

        `never_had`: whether there was neither a collected series nor a result of this name. Rules that read one another in a
        circle, or over many steps, lack nothing.
        """
        known: dict[str, bool] = {}

        def lacks(name: str, steps: int) -> bool:
            if name not in known:
                known[name] = False
                known[name] = never_had(name) and all(
                    steps > 0
                    and any(
                        lacks(need.selector.metric, steps - 1)
                        for need in rule.expression.needs
                        if need.selector.metric
                    )
                    for rule in self._rules.get(name, ())
                )
            return known[name]

        return lacks(metric, _MOST_STEPS)
