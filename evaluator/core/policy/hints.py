"""Hints for metrics with several series per node, and for counters: how to reduce them to one value at the source.

A text is constant for a metric, its source and the policy's use of it, because it is also written to Events.
`counter_warnings` selects the counters that a policy compares without a rate.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

from evaluator.core.policy.reductions import (
    PREFIX,
    Reduction,
    Use,
    is_counter,
    reduction,
    shipped,
    uses_by_metric,
)
from evaluator.core.policy.types import Operator, Policy
from evaluator.core.readings.merged import OF_AGENTS, PROMETHEUS
from evaluator.core.readings.node_conditions import SOURCE as NODE_CONDITIONS

LONGEST_NAME = 60
"""Characters. Examples repeat the metric name; longer names get no example, to keep the status small."""
_AMOUNT = re.compile(r".*(_(seconds|bytes|joules?)_total|Octets)")
"""Counters of amounts: on a busy node they are always above 0."""


@lru_cache(maxsize=1024)
def aggregation_hint(metric: str, source: str, uses: tuple[Use, ...] = ()) -> str:
    """Return what the policy's author or the operator can do.

    `source` is the polled source of the metric, empty for agents. The example fits the first of `uses`.
    """
    if source in OF_AGENTS:
        return _on_the_node(metric, uses)
    return _BY_SOURCE.get(source, _in_the_adapter)(metric, uses)


def counter_hint(metric: str, uses: tuple[Use, ...] = ()) -> str:
    """Return what is wrong with comparing a counter, and the recording rule to write. The example fits the first of `uses`."""
    advice = (
        f"{metric} is a counter that only grows until the node restarts: {_named(metric, uses)}record its rate and name the "
        "result here"
    )
    return f"{advice}{_example(metric, uses)} (docs/rules.md)"


def _on_the_node(metric: str, uses: Collection[Use]) -> str:
    advice = f"{_named(metric, uses)}reduce them by a recording rule on the node and name its result here"
    where = "in a file of the agent's --rules.file, beside those of deploy/rules (docs/rules.md)"
    return f"{advice}{_example(metric, uses)}, {where}"


def _example(metric: str, uses: Collection[Use]) -> str:
    """Return an example of a recording rule; empty for a name that is too long, or no series name."""
    if not _fits(metric):
        return ""
    reduced = reduction(metric, uses)
    recorded = PREFIX + reduced.name.removeprefix(PREFIX)
    expression = _filled(reduced, _selector(metric, reduced.matchers))
    return f", such as `record: {recorded}` with `expr: {expression}`{_compared(reduced)}"


def _in_prometheus(metric: str, uses: Collection[Use]) -> str:
    advice = f"{_named(metric, uses)}have Prometheus reduce them, by a recording rule or in --prometheusQueries"
    if not _fits(metric):
        return advice
    reduced = reduction(metric, uses)
    expression = _filled(reduced, _selector(metric, reduced.matchers), by=" by (node) ")
    return (
        f"{advice}, such as `{reduced.name}: {expression}`{_compared(reduced)}, and name that here"
    )


def _in_the_adapter(metric: str, uses: Collection[Use]) -> str:
    reduced = reduction(metric, uses)
    series = "<<.Series>>" + _matching("<<.LabelMatchers>>", reduced.matchers)
    query = _filled(reduced, series, by=" by (<<.GroupBy>>) ")
    return f"have the adapter reduce them, such as by `metricsQuery: {query}`{_compared(reduced)}"


def _among_conditions(_metric: str, _uses: Collection[Use]) -> str:
    return (
        "several condition types of the node have this name, since characters other than letters, digits and _ become _: "
        "rename one of them at its reporter"
    )


_BY_SOURCE: Mapping[str, Callable[[str, Collection[Use]], str]] = {
    NODE_CONDITIONS: _among_conditions,
    PROMETHEUS: _in_prometheus,
}


def _named(metric: str, uses: Collection[Use]) -> str:
    series = shipped(metric, uses)
    return f"name {series} of deploy/rules (docs/shipped-rules.md) instead, or " if series else ""


def _compared(reduced: Reduction) -> str:
    """Return a note on the target, if the result is a count of series."""
    return " (the number of such series: compare it GreaterThan 0)" if reduced.counts else ""


def _fits(metric: str) -> bool:
    """Whether the name is a valid series name (adapter names may have dashes) and short enough to repeat."""
    return len(metric) <= LONGEST_NAME and metric.isidentifier() and metric.isascii()


def _selector(metric: str, matchers: str) -> str:
    """Return the selector for a policy's metric; without the prefix it selects both names."""
    if metric.startswith(PREFIX):
        return f"{metric}{{{matchers}}}" if matchers else metric
    named = f'__name__=~"({PREFIX})?{metric}"'
    return _matching(named, matchers)


def _matching(*matchers: str) -> str:
    return "{" + ",".join(filter(None, matchers)) + "}"


def _filled(reduced: Reduction, series: str, by: str = "") -> str:
    return reduced.expression.replace("{by}", by).replace("{series}", series)


def counter_warnings(policy: Policy) -> dict[str, str]:
    """Return a warning for each metric that is a counter by its name, sorted; each has the recording rule to write.

    A rule on whether anything was counted, such as `errors_total GreaterThan 0`, can be meant; on seconds or bytes it
    never is. Without a rate, a counter only grows until the node restarts.
    """
    uses = uses_by_metric(policy)
    return {
        metric: counter_hint(metric, uses[metric])
        for metric in sorted(uses)
        if is_counter(metric) and not _is_meant(metric, uses[metric])
    }


def _is_meant(metric: str, uses: Sequence[Use]) -> bool:
    return _AMOUNT.fullmatch(metric) is None and all(map(_asks_whether_any, uses))


def _asks_whether_any(use: Use) -> bool:
    """Return whether a rule tells 0 from all other counts."""
    match use:
        case Use(ranks=True):
            return False
        case Use(Operator.GREATER_THAN, target):
            return 0 <= target < 1
        case Use(Operator.LESS_THAN, target):
            return 0 < target <= 1
        case _:
            return use.target == 0
