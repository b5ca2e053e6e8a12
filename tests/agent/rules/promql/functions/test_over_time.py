"""Extremes, quantiles and the last sample of a range; sums, means and deviations, where rounding matters most."""

import math

import pytest

from agent.rules.promql.functions import RANGES

NAN, INF = math.nan, math.inf


def ask(name, window, *numbers):
    return RANGES[name].compute(window, 0, 600_000, *numbers)


@pytest.mark.parametrize(
    ("values", "lowest", "highest"),
    [
        ([3, 1, 2], 1, 3),
        ([NAN, 1, 2], 1, 2),
        ([1, NAN, 2], 1, 2),
        ([1, 2, NAN], 1, 2),
        ([NAN, -INF, INF, NAN], -INF, INF),
        ([7], 7, 7),
    ],
)
def test_nan_is_neither_minimum_nor_maximum(window, values, lowest, highest):
    assert ask("min_over_time", window(values)) == lowest
    assert ask("max_over_time", window(values)) == highest


def test_minimum_and_maximum_of_nan_are_nan(window):
    assert math.isnan(ask("min_over_time", window([NAN, NAN])))
    assert math.isnan(ask("max_over_time", window([NAN, NAN])))


def test_samples_are_counted_not_levels(window):
    samples = window([4, 4, None, 4, 5, 5])
    assert ask("count_over_time", samples) == 5
    assert ask("last_over_time", samples) == 5
    assert ask("present_over_time", samples) == 1


def test_only_last_over_time_keeps_the_metric_name():
    assert [name for name, function in RANGES.items() if function.keeps_name] == ["last_over_time"]


@pytest.mark.parametrize(
    ("q", "values", "found"),
    [
        (0, [3, 1, 2], 1),
        (0.5, [3, 1, 2], 2),
        (1, [3, 1, 2], 3),
        (0.75, [0, 1], 0.75),
        (0.9, [1, 2, 3, 4], 3.7),
        (0.5, [1, 1, 1, 9], 1),
        (0.75, [1, 1, 1, 9], 3),
        (0.25, [9, 1, 1, 9, 1, 5], 1),
        (0.7, [9, 1, 1, 9, 1, 5], 7),
        (-0.1, [1, 2], -INF),
        (1.1, [1, 2], INF),
        (0.5, [NAN, 1, 2], 1),
        (1, [2, NAN, NAN, 1], 2),
        (0.5, [-INF, NAN, 5], -INF),
        (0.5, [9, -INF, NAN, NAN, 9], -INF),
    ],
)
def test_quantiles_are_interpolated_and_nan_sorts_first(window, q, values, found):
    assert ask("quantile_over_time", window(values), q) == pytest.approx(found)


@pytest.mark.parametrize(
    ("q", "values"),
    [
        (NAN, [1, 2]),
        (0, [1, NAN]),
        (0, [-INF, -INF, NAN, NAN]),
        (0, [1, INF]),
        (0.5, [-INF, NAN, -INF, NAN, -INF]),
        (0.5, [-INF, INF]),
    ],
)
def test_quantile_outside_0_to_1_is_infinite_or_nan(window, q, values):
    # Infinity weighted with zero is NaN.
    assert math.isnan(ask("quantile_over_time", window(values), q))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1, 2, 3], 6),
        ([2.5] * 4, 10),
        ([0.1] * 10, 1),
        ([1, 1e100, 1, -1e100], 2),
        ([1e100, 1e100, 1, -1e100, -1e100], 1),
        ([1, 1, 1e16, 1e16, -1e16, -1e16, 1], 3),
        ([1e308, 1e308, -1e308, -1e308], INF),  # overflows on the way and stays infinite
        ([-1e308, 1e308, 1e308], 1e308),
        ([INF, 1, INF], INF),
        ([-INF, 1], -INF),
        ([0, 0], 0),
    ],
)
def test_sums_are_compensated(window, values, found):
    assert ask("sum_over_time", window(values)) == found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1, 2, 6], 3),
        ([0.1] * 10, 0.1),
        ([1e308] * 5, 1e308),
        ([1e308, 1e308, 1e307], 7e307),
        ([1e308, 1e308, -1e308], 1e308 / 3),
        ([1, 1e100, 1, -1e100], 0.5),
        ([INF, 1, INF], INF),
        ([1, -INF, 1], -INF),
        ([1, INF], INF),
        ([7], 7),
    ],
)
def test_means_are_those_of_compensated_sums(window, values, found):
    assert ask("avg_over_time", window(values)) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("name", ["sum_over_time", "avg_over_time"])
@pytest.mark.parametrize("values", [[-0.0], [-0.0, -0.0], [-0.0, 0.0]])
def test_zero_sum_has_no_sign(window, name, values):
    assert math.copysign(1, ask(name, window(values))) == 1


@pytest.mark.parametrize("name", ["sum_over_time", "avg_over_time"])
@pytest.mark.parametrize("values", [[NAN], [1, NAN, 2], [INF, -INF], [INF, 1, NAN], [1, INF, -INF]])
def test_sums_with_nan_and_infinity_follow_ieee(window, name, values):
    assert math.isnan(ask(name, window(values)))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([5], 0),
        ([5, 5, 5], 0),
        ([2, 4, 4, 4, 5, 5, 7, 9], 4),
        ([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16], 22.5),
        ([1e15 + 2, 1e15 + 2, 1e15, 1e15], 1.03125),  # as in Prometheus; exactly it would be 1
        ([-1, -1, 1, 1], 1),
        ([0.1, 0.1, 0.1, 0.4], 0.016875),
    ],
)
def test_variances_are_computed(window, values, found):
    assert ask("stdvar_over_time", window(values)) == pytest.approx(found, rel=1e-12)
    assert ask("stddev_over_time", window(values)) == pytest.approx(math.sqrt(found), rel=1e-12)


@pytest.mark.parametrize(
    "values", [[NAN], [INF], [INF, INF], [1, INF], [1, NAN, 1], [1e308, -1e308]]
)
def test_variances_of_nan_and_overflow_follow_ieee(window, values):
    assert not math.isfinite(ask("stdvar_over_time", window(values)))
    assert not math.isfinite(ask("stddev_over_time", window(values)))
