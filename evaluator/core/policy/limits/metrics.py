"""Limits the number of metrics requested, over all policies together.

The selection depends on the policies alone, so all replicas make the same one, also after a restart.
"""

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.limits.fair_share import Share, divide
from evaluator.core.readings.column import Column, unknown
from evaluator.core.readings.merged import Readings

MOST_METRICS = 1000
"""A reading takes about 40 bytes: 1,000 metrics of 5,000 nodes are 200 MB."""

Named = Mapping[PolicyKey, frozenset[str]]
"""The metrics that each policy names."""


@dataclass(frozen=True, slots=True)
class MetricLimit:
    """The metrics to request from sources, and those left out, with the reason of each."""

    requested: frozenset[str]
    left_out: Mapping[str, str] = field(default_factory=dict)


def limit_metrics(
    named: Named,
    most: int,
    *,
    observed: Named = MappingProxyType({}),
    always: frozenset[str] = frozenset(),
    served: frozenset[str] = frozenset(),
    quota: int | None = None,
) -> MetricLimit:
    """Select at most `most` of the metrics that policies name; metrics in `always` do not count.

    They are divided by namespace first, then by policy: a metric counts for the first that claims it. Policies that are
    only `observed` get what is left, and last come the metrics that are only `served`. `quota`: metrics of one namespace.
    """
    union = always.union(served, *named.values(), *observed.values())
    if len(union) <= most + len(always) and _within(quota, named, observed):
        return MetricLimit(union)
    requested, share = set(always), Share(most, quota)
    for claims in (named, observed):
        ordered = {key: sorted(metrics) for key, metrics in claims.items()}
        for _, metric in divide(ordered, lambda one: one not in requested, share):
            requested.add(metric)
    new = [name for name in sorted(served) if name not in requested]
    requested.update(new[: share.free])
    reasons = _reasons(union - requested, {**observed, **named}, share, most)
    return MetricLimit(frozenset(requested), reasons)


def _within(quota: int | None, *named: Named) -> bool:
    """Return whether no namespace can exceed its quota."""
    if quota is None:
        return True
    used: dict[str, set[str]] = {}
    for key, metrics in itertools.chain.from_iterable(one.items() for one in named):
        used.setdefault(key.namespace, set()).update(metrics)
    return all(len(metrics) <= quota for metrics in used.values())


def _reasons(left_out: Collection[str], named: Named, share: Share, most: int) -> dict[str, str]:
    """Return why each metric was left out, and the namespaces that use the limit."""
    shared = f"not requested: policies name more than --maxMetrics={most}, of which namespaces use {share.users()}"
    reasons = dict.fromkeys(left_out, shared)
    for key in sorted(named, reverse=True):
        if key.namespace in share.full:
            own = f"not requested: namespace {key.namespace} uses its --maxNamespaceMetrics={share.quota}"
            reasons.update(dict.fromkeys(named[key] & reasons.keys(), own))
    return reasons


class LimitedReadings:
    """Readings without the metrics over the limit: their columns have a fault, and are not reported as pending."""

    def __init__(self, readings: Readings, left_out: Mapping[str, str]) -> None:
        self._readings = readings
        self._left_out = left_out

    def column(self, metric: str, nodes: Sequence[str], now: float) -> Column:
        """Return one metric over some nodes at `now`."""
        if (reason := self._left_out.get(metric)) is not None:
            return unknown(len(nodes), unreported=False, fault=reason)
        return self._readings.column(metric, nodes, now)

    @contextlib.contextmanager
    def snapshot(self, nodes: Sequence[str]) -> Iterator["LimitedReadings"]:
        """Yield the readings of one moment."""
        with self._readings.snapshot(nodes) as readings:
            yield LimitedReadings(readings, self._left_out)

    def next_expiry(self, now: float) -> float:
        """Return when a column changes without new input (seconds)."""
        return self._readings.next_expiry(now)

    def resume(self, since: float, now: float) -> None:
        """Record that no reports were received from `since` to `now`."""
        self._readings.resume(since, now)

    def subscribe(self, metrics: Iterable[str]) -> None:
        """Keep only these metrics."""
        self._readings.subscribe(metrics)

    def prune(self, nodes: Collection[str], now: float) -> None:
        """Drop nodes other than these."""
        self._readings.prune(nodes, now)
