"""The inputs and the result of one evaluation of a rule group."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.metric_names import PARTS
from agent.rules.groups import dependencies
from agent.rules.groups.file import Group, RuleError
from agent.rules.promql.budget import Budget
from agent.rules.promql.values import Vector
from collectors.interface.sample import Family

FamiliesByMetric = Mapping[str, Sequence[Family]]
"""Families by the names of their samples: a histogram has several."""

Results = Mapping[str, Vector]
"""Recorded series by metric, with complete label sets. Of duplicates, the first one counts."""


@dataclass(frozen=True, slots=True)
class TickResult:
    """The results of a group as of a tick."""

    time: int
    """The tick in ms."""
    results: Results
    unread: frozenset[str] = frozenset()
    """Metrics without a result whose value is unknown."""
    doubtful: frozenset[str] = frozenset()
    """Metrics with missing input; they may have results nevertheless."""
    errors: tuple[RuleError, ...] = ()
    overridden: frozenset[str] = frozenset()
    """Metrics that were collected and therefore not recorded."""

    def without(self, metrics: Collection[str]) -> "TickResult":
        """Return this without what it has about these metrics."""
        return TickResult(
            self.time,
            {metric: vector for metric, vector in self.results.items() if metric not in metrics},
            self.unread.difference(metrics),
            self.doubtful.difference(metrics),
            tuple(error for error in self.errors if error.rule not in metrics),
            self.overridden.difference(metrics),
        )


def unknown(group: Group, time: int, errors: tuple[RuleError, ...] = ()) -> TickResult:
    """Return the results of a group about which nothing is known at this time."""
    metrics = dependencies.recorded([group])
    return TickResult(time, {}, metrics, metrics, errors)


@dataclass(frozen=True, slots=True)
class TickInputs:
    """The samples of collectors for a tick."""

    time: int
    """Time of collection in ms of the samples' clock."""
    epoch: int
    """Offset in ms to Unix time."""
    families: FamiliesByMetric
    failed: frozenset[str]
    """Collectors that could not read their source, or a part of it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The input of one evaluation of a group."""

    time: int
    """Milliseconds of the samples' clock."""
    epoch: int
    """Offset in ms to Unix time."""
    step: int
    """Default step of a subquery in ms."""
    families: FamiliesByMetric
    collected: Collection[str]
    """Metrics in the samples, and all others that collectors export; no results are recorded under these names."""
    failed: frozenset[str] = frozenset()
    """Collectors that could not read their source, or a part of it."""
    others: Iterable[TickResult] = ()
    """The latest results of other groups."""
    budget: Budget = field(default_factory=Budget)
    free: float = math.inf
    """Bytes that this group's results and the samples it shares may take."""
    reserve: float = 0
    """Bytes of these for samples of known series and results as large as before."""
    closed: bool = False
    """See `Moment.closed`."""


def by_metric(families: Iterable[Family]) -> FamiliesByMetric:
    """Return families by the names of all samples that they may have, and by their own."""
    families_by_metric: dict[str, list[Family]] = {}
    for family in families:
        families_by_metric.setdefault(family.name, []).append(family)
        if family.type in {"histogram", "summary"}:
            for part in PARTS:
                families_by_metric.setdefault(family.name + part, []).append(family)
    return families_by_metric
