"""The result of a backtest as a JSON document; the other outputs are made from it."""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.policy.strategies import COMPLIANCE, StrategyName
from lab.replay.faults import Fault, Violation, detection, joined
from lab.replay.run import PolicyResult, Resources, Result, Variant
from lab.replay.totals import Interval, Track
from plimsoll import rfc3339
from plimsoll.quantity import json_number

NOTE = (
    "A backtest replays recorded readings. It does not simulate that placement changes load: a node that gets no pods "
    "cools down, and the nodes that get them instead warm up."
)
_HOUR = 3600.0
_WORST = 5


def report(result: Result, faults: Sequence[Fault] | None = None) -> dict[str, Any]:
    """Return the report as JSON values. `faults`: known ones, which violations are compared with."""
    coverage, period = result.coverage, result.period
    return {
        "from": rfc3339.seconds(period.begin),
        "to": rfc3339.seconds(period.end),
        "stepSeconds": result.timing.step,
        "staleAfterSeconds": result.timing.stale_after,
        "nodes": len(result.nodes),
        "samples": result.samples,
        "evaluations": result.evaluations,
        "gaps": [
            {"start": rfc3339.seconds(begin), "end": rfc3339.seconds(end)}
            for begin, end in coverage.gaps
        ],
        "gapSeconds": round(coverage.gap_seconds, 3),
        "note": NOTE,
        "policies": [
            _policy(one, result) | ({} if faults is None else _detection(one, result, faults))
            for one in result.policies
        ],
    }


def sensitivity(
    tried: Sequence[Variant], results: Sequence[Result], durations: tuple[float, float]
) -> list[dict[str, Any]]:
    """Return the figures of each variant and policy. `durations`: the `for` and `clearAfter` that factors apply to."""
    hold, clear = durations
    return [
        {
            "name": one.policy.key.name,
            "namespace": one.policy.key.namespace,
            "targetFactor": variant.target,
            "forSeconds": variant.for_factor * hold,
            "clearAfterSeconds": variant.clear_factor * clear,
            "nodesAtOnceMax": one.totals.most_at_once,
            "nodesAtOnceP95": one.totals.at_once_quantile(0.95),
            "changes": int(one.totals.changes.sum()),
            "worstNodeHour": int(one.totals.worst_hour.max(initial=0)),
            "nodeHours": _number(one.totals.node_seconds / _HOUR),
        }
        for variant, result in zip(tried, results, strict=True)
        for one in result.policies
    ]


def _policy(one: PolicyResult, result: Result) -> dict[str, Any]:
    totals, policy = one.totals, one.policy
    hours = (result.period.end - result.period.begin) / _HOUR
    nodes = len(result.nodes)
    return {
        "name": policy.key.name,
        "namespace": policy.key.namespace,
        "mode": "observe" if policy.observed else "enforce",
        "problems": [*policy.problems],
        "missingShare": _number(one.missing_share),
        "metricsWithoutData": sorted(_without_data(one, result)),
        "rules": [_rule(track) for track in one.tracks],
        "nodesAtOnce": {
            "max": totals.most_at_once,
            "p95": totals.at_once_quantile(0.95),
            "mean": _number(totals.node_seconds / (hours * _HOUR)) if hours else 0,
            "maxShare": _number(totals.most_at_once / nodes) if nodes else 0,
        },
        "nodeHours": _number(totals.node_seconds / _HOUR),
        "flaps": _flaps(one, result, hours),
        "refused": _refused(totals.refused_seconds, result)
        if StrategyName.DONTSCHEDULE in policy.strategies
        else None,
        "noNodeMinutes": _number(totals.no_node_seconds / 60),
        "limit": _limit(one),
        "writes": _writes(one),
        "nodes": dict(_nodes(one, result)),
    }


def _detection(one: PolicyResult, result: Result, faults: Sequence[Fault]) -> dict[str, Any]:
    """Return how well the violations of a policy find the faults that are known of it or of any, in the range."""
    period, key = result.period, one.policy.key
    own = [
        Fault(f.node, max(f.start, period.begin), min(f.end, period.end))
        for f in faults
        if f.policy in ("", key.name, str(key))
        and f.node in result.nodes.position
        and f.start < period.end
        and f.end > period.begin
    ]
    tracks = [track for track in one.tracks if track.strategy in COMPLIANCE]
    violations = joined(
        Violation(result.nodes[interval.node], interval.start, interval.end)
        for track in tracks
        for interval in track.intervals
    )
    seconds = (period.end - period.begin) * len(result.nodes)
    found = detection(violations, own, node_seconds=seconds)
    return {
        "detection": {
            "faults": found.faults,
            "found": len(found.delays),
            "violations": found.violations,
            "right": found.right,
            "precision": _number(found.precision),
            "recall": _number(found.recall),
            "f1": _number(found.f1),
            "falsePer1000NodeDays": _number(found.false_per_1000_node_days),
            "secondsToDetection": {
                "p50": _number(found.delay(0.5)),
                "p95": _number(found.delay(0.95)),
            },
        }
    }


def _limit(one: PolicyResult) -> dict[str, Any] | None:
    """Return how the limit of nodes held the policy back; None if it has none."""
    for feature in one.features:
        if (limit := feature.limit) is not None:
            return {
                "nodes": limit.nodes,
                "of": limit.of,
                "trips": limit.trips,
                "heldBackHours": _number(limit.held_back_seconds / _HOUR),
            }
    return None


def _writes(one: PolicyResult) -> dict[str, int]:
    """Return the numbers of writes by kind."""
    writes = {"labels": one.totals.label_writes}
    for feature in one.features:
        writes |= feature.writes
    return writes


def _without_data(one: PolicyResult, result: Result) -> Iterator[str]:
    """Yield the metrics of a policy that no node ever had outside gaps."""
    whole = result.coverage.seconds * len(result.nodes)
    for metric in one.policy.base_metrics:
        if result.coverage.missing_seconds.get(metric, whole) >= whole:
            yield metric


def _rule(track: Track) -> dict[str, Any]:
    seconds = [one.seconds for one in track.intervals]
    return {
        "strategy": track.strategy.value,
        "rule": track.rule,
        "count": len(seconds),
        "nodes": len({one.node for one in track.intervals}),
        "totalSeconds": _number(sum(seconds)),
        "longestSeconds": _number(max(seconds, default=0.0)),
    }


def _flaps(one: PolicyResult, result: Result, hours: float) -> dict[str, Any]:
    by_node, worst_hour = one.totals.changes, one.totals.worst_hour
    order = np.lexsort((np.arange(len(by_node)), -by_node, -worst_hour))[:_WORST]
    return {
        "changes": int(by_node.sum()),
        "perNodeHour": _number(by_node.sum() / (hours * len(by_node)))
        if hours and len(by_node)
        else 0,
        "worstNodeHour": int(worst_hour.max(initial=0)),
        "worstNodes": [
            {
                "node": result.nodes[node],
                "changes": int(by_node[node]),
                "worstHour": int(worst_hour[node]),
            }
            for node in order.tolist()
            if by_node[node]
        ],
    }


def _refused(seconds: Floats, result: Result) -> dict[str, Any]:
    """Return the capacity that dontschedule kept from new pods."""
    known: Resources = result.allocatable
    hours: dict[str, Any] = {"nodeHours": _number(float(seconds.sum()) / _HOUR)}
    for name, resource, unit in (("coreHours", "cpu", 1.0), ("gibHours", "memory", float(1 << 30))):
        amounts = np.array([known.get(node, {}).get(resource, np.nan) for node in result.nodes])
        lost = np.where(seconds > 0, amounts * seconds, 0.0).sum() / unit / _HOUR
        hours[name] = _number(float(lost)) if known else None
    return hours


def _nodes(one: PolicyResult, result: Result) -> Iterator[tuple[str, dict[str, Any]]]:
    by_node: dict[int, list[tuple[Track, Interval]]] = {}
    for track in one.tracks:
        for interval in track.intervals:
            by_node.setdefault(interval.node, []).append((track, interval))
    for node in sorted(by_node):
        own = sorted(by_node[node], key=lambda pair: (pair[1].start, pair[0].strategy))
        yield (
            result.nodes[node],
            {
                "seconds": _number(float(_seconds(own))),
                "intervals": [_interval(track, interval) for track, interval in own],
            },
        )


def _seconds(own: Sequence[tuple[Track, Interval]]) -> float:
    """Return the seconds that a union of intervals, sorted by start, covers."""
    total, until = 0.0, -np.inf
    for _, interval in own:
        total += max(0.0, interval.end - max(interval.start, until))
        until = max(until, interval.end)
    return total


def _interval(track: Track, one: Interval) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "start": _millis(one.start),
        "end": _millis(one.end),
        "strategy": track.strategy.value,
        "rule": track.rule,
        "worst": None if one.by_missing else _reading(one.worst),
    }
    if one.by_missing:
        found["byMissing"] = True
    if one.began_before:
        found["beganBefore"] = True
    if one.ongoing:
        found["ongoing"] = True
    return found


_millis = functools.lru_cache(maxsize=1 << 16)(rfc3339.millis)
"""Many intervals begin or end at the same moments."""


def _reading(value: float) -> float | str | None:
    """Return a reading for JSON: infinities, which are readings too, as text; None for NaN."""
    return json_number(round(value, 6))


def _number(value: float) -> float | None:
    """Return a number that JSON can write; None for NaN and infinity."""
    return round(value, 6) if math.isfinite(value) else None
