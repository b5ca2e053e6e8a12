"""histogram_quantile over classic histograms: series with the label `le`."""

import sys
from bisect import bisect_left
from collections.abc import Sequence

from agent.rules.promql.functions.math import INF, NAN
from agent.rules.promql.labels import Labels, value, without_name
from agent.rules.promql.memo import must_be_distinct
from agent.rules.promql.operators.arithmetic import divide
from agent.rules.promql.values import Vector
from collectors.shared.formats.numerals import parse_float

BOUND = "le"
"""Label of a bucket's inclusive upper bound."""

_TINY = 1e-12  # a difference of two counts relative to their sum
_LARGEST = sys.float_info.max

Bucket = tuple[float, float]
"""Upper bound and cumulative count."""


def histogram_quantile(q: float, vector: Vector) -> Vector:
    """Return the `q` quantile of each histogram, interpolating linearly within a bucket.

    Series whose `le` is not a number are skipped. Raises EvaluationError if histograms differ only in their name.
    """
    histograms: dict[Labels, list[Bucket]] = {}
    for labels, counted in vector:
        try:
            bound = parse_float(value(labels, BOUND))
        except ValueError:
            continue
        rest = tuple(pair for pair in labels if pair[0] != BOUND)
        histograms.setdefault(rest, []).append((bound, counted))
    sets = [without_name(rest) for rest in histograms]
    must_be_distinct(sets)
    quantiles = (bucket_quantile(q, buckets) for buckets in histograms.values())
    return list(zip(sets, quantiles, strict=True))


def bucket_quantile(q: float, buckets: Sequence[Bucket]) -> float:
    """Return the `q` quantile of one histogram; `buckets` in any order.

    NaN without a +Inf bucket, with fewer than two buckets, or without observations. In the +Inf bucket the result is the
    highest finite bound. The first bucket starts at 0, unless its bound is <= 0: then the result is that bound.
    """
    if q != q:
        return NAN
    if not 0 <= q <= 1:
        return INF if q > 1 else -INF
    bounds, counts = _cumulative(buckets)
    if bounds[-1] != INF or len(bounds) < 2 or counts[-1] == 0:
        return NAN
    rank = q * counts[-1]
    place = _place(counts, rank)
    if place == len(bounds) - 1:
        return bounds[-2]
    if place == 0:
        if bounds[0] <= 0:
            return bounds[0]
        return 0.0 + bounds[0] * divide(rank, counts[0])
    below, counted = bounds[place - 1], counts[place - 1]
    return below + (bounds[place] - below) * divide(rank - counted, counts[place] - counted)


def _cumulative(buckets: Sequence[Bucket]) -> tuple[list[float], list[float]]:
    """Return ascending unique bounds and non-decreasing counts.

    Counts can decrease because buckets are not read, or their rates computed, at the same instant. Tiny differences are
    rounding errors of rates.
    """
    bounds: list[float] = []
    counts: list[float] = []
    for bound, counted in sorted(buckets, key=_bound):
        if bounds and bound == bounds[-1]:
            counts[-1] += counted
        else:
            bounds.append(bound)
            counts.append(counted)
    most = counts[0]
    for index, counted in enumerate(counts):
        if counted < most or _almost_equal(counted, most):
            counts[index] = most
        elif counted > most:
            most = counted
    return bounds, counts


def _almost_equal(counted: float, most: float) -> bool:
    both = abs(counted) + abs(most)
    return counted != 0 != most and abs(counted - most) / min(both, _LARGEST) < _TINY


def _bound(bucket: Bucket) -> float:
    return bucket[0]


def _place(counts: list[float], rank: float) -> int:
    """Return the index of the first bucket that contains the rank; the last one if none does, as for NaN."""
    return bisect_left(range(len(counts) - 1), True, key=lambda index: counts[index] >= rank)
