"""Sums, means and deviations over a range, where rounding matters most."""

import math

import pytest

from agent.rules.promql.functions import RANGES

NAN, INF = math.nan, math.inf


def ask(name, window):
    return RANGES[name].compute(window, 0, 600_000)


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
        ([1, 1e100, 1, -1e100], -2.4283361152821613e83),  # as in Prometheus
        ([INF, 1, INF], INF),
        ([1, -INF, 1], -INF),
        ([1, INF], INF),
        ([7], 7),
    ],
)
def test_means_are_incremental(window, values, found):
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
