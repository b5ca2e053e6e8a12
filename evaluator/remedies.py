"""What to do about a metric of which nodes have several series: a rule that makes one number of them, where it is read.

The sentences stay the same while the metric and its source do: they are told in events as well.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from evaluator.readings import CUSTOM_METRICS, PROMETHEUS

_PREFIX = "node_"
_TOTAL = "_total"

LONGEST_NAME = 60
"""Characters of a metric's name that examples are made of: they repeat it, and a policy's status has room for many."""


class _Reduced(NamedTuple):
    """An expression that makes one number of all series, and what to call it."""

    name: str
    expression: str


def remedy(metric: str, source: str) -> str:
    """What the policy's author, or the operator, can do; `source` is who reads the metric, empty for the agents."""
    return _BY_SOURCE.get(source, _on_the_node)(metric)


def _on_the_node(metric: str) -> str:
    told = "reduce them by a recording rule on the node and name its result here"
    where = "in a file of the agent's --rules.file, beside those of deploy/rules (docs/rules.md)"
    if not _fits(metric):
        return f"{told}, {where}"
    reduced = _reduced(metric, _selector(metric))
    recorded = _PREFIX + reduced.name.removeprefix(_PREFIX)
    return f"{told}, such as `record: {recorded}` with `expr: {reduced.expression}`, {where}"


def _in_prometheus(metric: str) -> str:
    told = "have Prometheus reduce them, by a recording rule or in --prometheusQueries"
    if not _fits(metric):
        return told
    reduced = _reduced(metric, _selector(metric), by=" by (node) ")
    return f"{told}, such as `{reduced.name}: {reduced.expression}`, and name that here"


def _in_the_adapter(metric: str) -> str:
    return (
        "have the adapter reduce them, such as by "
        "`metricsQuery: max by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})`"
    )


_BY_SOURCE: Mapping[str, Callable[[str], str]] = {
    CUSTOM_METRICS: _in_the_adapter,
    PROMETHEUS: _in_prometheus,
}


def _fits(metric: str) -> bool:
    """Whether the name can be that of a series, and is not too long to be repeated; an adapter's may have dashes."""
    return len(metric) <= LONGEST_NAME and metric.isidentifier() and metric.isascii()


def _selector(metric: str) -> str:
    """The series that a policy's metric stands for: without the prefix, those of either name."""
    return metric if metric.startswith(_PREFIX) else f'{{__name__=~"({_PREFIX})?{metric}"}}'


def _reduced(metric: str, selector: str, by: str = "") -> _Reduced:
    """A counter's sum says little, and its maximum less: what counts is how fast it goes."""
    if metric.endswith(_TOTAL) and metric != _TOTAL:
        name = f"{metric.removesuffix(_TOTAL)}_per_second"
        return _Reduced(name, f"sum{by}(rate({selector}[1m]))")
    return _Reduced(f"{metric}_max", f"max{by}({selector})")
