"""Quantiles of classic histograms."""

import math

import pytest

from agent.rules.promql import labels
from agent.rules.promql.functions.histograms import bucket_quantile, histogram_quantile
from agent.rules.promql.values import EvaluationError

NAN, INF = math.nan, math.inf


def series(le, counted, *, name="latency_bucket", **others):
    return (labels.of_series(name, (("le", le), *others.items())), counted)


@pytest.mark.parametrize(
    ("q", "buckets", "found"),
    [
        (0.5, [(1, 2), (2, 6), (INF, 8)], 1.5),
        (0.5, [(INF, 8), (2, 6), (1, 2)], 1.5),
        (0.1, [(1, 2), (2, 6), (INF, 8)], 0.4),
        (0.25, [(1, 2), (2, 6), (INF, 8)], 1),
        (0.9, [(1, 2), (2, 6), (INF, 8)], 2),  # beyond the last finite bound
        (0, [(1, 2), (INF, 8)], 0),
        (1, [(1, 2), (INF, 2)], 1),
        (0.25, [(-1, 4), (2, 6), (INF, 8)], -1),  # the first bucket has no lower bound
        (0.1, [(0, 4), (2, 6), (INF, 8)], 0),
        (-1, [(1, 2), (INF, 8)], -INF),
        (2, [(1, 2), (INF, 8)], INF),
        (2, [(1, 2)], INF),
        (
            0.5,
            [(1, 4), (2, 3), (4, 8), (INF, 8)],
            1,
        ),  # a falling count is replaced by the previous one
        (0.75, [(1, 4), (2, 3), (4, 8), (INF, 8)], 3),
        (0.5, [(1, 1), (1, 1), (2, 6), (INF, 8)], 1.5),  # one bound in two spellings
        (0.5, [(1, 2), (2, 4), (INF, NAN)], 2),
        (0.5, [(-INF, 2), (2, 2), (INF, 4)], -INF),
    ],
)
def test_quantiles_are_interpolated(q, buckets, found):
    assert bucket_quantile(q, buckets) == pytest.approx(found)


@pytest.mark.parametrize(
    ("q", "buckets"),
    [
        (NAN, [(1, 2), (INF, 8)]),
        (0.5, [(1, 2), (2, 8)]),  # the total is unknown
        (0.5, [(INF, 8)]),
        (0.5, [(INF, 4), (INF, 4)]),
        (0.5, [(1, 0), (INF, 0)]),
        (0.5, [(-1, 0), (INF, 0)]),
        (0.5, [(1, NAN), (2, 6), (INF, 8)]),
    ],
)
def test_undefined_quantiles_are_nan(q, buckets):
    assert math.isnan(bucket_quantile(q, buckets))


def test_each_set_of_other_labels_is_a_histogram():
    vector = [
        series("1", 2, disk="a"),
        series("+Inf", 8, disk="b"),
        series("+Inf", 4, disk="a"),
        series("1", 8, disk="b"),
        series("0x1", 3, disk="c"),
        (labels.of_series("latency_sum", (("disk", "d"),)), 3.0),
    ]
    assert dict(histogram_quantile(0.5, vector)) == {(("disk", "a"),): 1.0, (("disk", "b"),): 0.5}


def test_histograms_that_differ_only_in_name_are_an_error():
    with pytest.raises(EvaluationError, match="same labelset"):
        histogram_quantile(0.5, [series("+Inf", 1, name="a"), series("+Inf", 1, name="b")])


def test_no_series_have_no_quantile():
    assert histogram_quantile(0.5, []) == []
