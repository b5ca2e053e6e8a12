"""Rates of counters and gauges; expected results are from Prometheus 2.42 or computed by hand where noted."""

import math

import pytest

from agent.rules.promql.functions import RANGES

NAN = math.nan


def ask(name, window, start, end):
    return RANGES[name].compute(window, start * 1000, end * 1000)


def test_samples_at_both_ends_are_not_extrapolated(window):
    samples = window([100, 110, 120, 130, 140])
    assert ask("increase", samples, 0, 60) == 40
    assert ask("rate", samples, 0, 60) == pytest.approx(40 / 60)
    assert ask("delta", samples, 0, 60) == 40


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        (0, 60, 60),
        (-15, 60, 75),  # up to the average gap: extrapolated to the end
        (-16.4, 60, 76.4),  # up to a tenth farther
        (-16.5, 60, 67.5),  # farther: extrapolated by half a gap only
        (-60, 60, 67.5),
        (0, 76.4, 76.4),
        (0, 76.5, 67.5),
        (-60, 120, 75),
        (-10, 65, 75),
    ],
)
def test_rate_is_extrapolated_to_near_ends(window, start, end, seconds):
    # Far from zero, so the zero point does not matter. By hand: 40 in 60 s.
    samples = window([1e6, 1e6 + 10, 1e6 + 20, 1e6 + 30, 1e6 + 40])
    for name in ("increase", "delta"):
        assert ask(name, samples, start, end) == pytest.approx(40 * seconds / 60)
    assert ask("rate", samples, start, end) == pytest.approx(40 * seconds / 60 / (end - start))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([0, 10, 20], 20),  # zero was exactly at the first sample
        ([5, 15, 25], 25),  # and here 7.5 s before
        ([10, 20, 30], 30),
        (
            [100, 110, 120],
            20 * 45 / 30,
        ),  # by its slope zero is far, but the end of the range is near
        ([-5, 5, 15], 20 * 45 / 30),  # a gauge, so zero does not matter
    ],
)
def test_counter_is_not_extrapolated_below_zero(window, values, found):
    samples = window(values, begin=15)
    assert ask("increase", samples, 0, 45) == pytest.approx(found)
    assert ask("delta", samples, 0, 45) == pytest.approx((values[-1] - values[0]) * 45 / 30)


def test_zero_point_limits_the_extrapolation_by_half_a_gap(window):
    # By hand: the range begins 60 s before the first sample, more than 1.1 gaps: half a gap is added.
    assert ask("increase", window([20, 30, 40], begin=60), 0, 90) == pytest.approx(20 * 37.5 / 30)
    # Zero is 16 s before, more than half a gap.
    assert ask("increase", window([32, 62, 92], begin=60), 0, 90) == pytest.approx(60 * 37.5 / 30)
    # Zero is 5 s before, less than half a gap.
    assert ask("increase", window([10, 40, 70], begin=60), 0, 90) == pytest.approx(70)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([5, 8, 2, 4], 7),
        ([5, 0, 0, 0], 0),
        ([5, 3, 2, 1], 6),
        ([9, 9, 4, 4], 4),
        ([1, NAN, 3, 4], 3),
        ([5, NAN, 3, 4], -1),  # a fall hidden by NaN is not counted
    ],
)
def test_value_before_a_counter_reset_counts(window, values, found):
    assert ask("increase", window(values), 0, 45) == found
    assert ask("rate", window(values), 0, 45) == pytest.approx(found / 45)


def test_missing_samples_widen_the_average_gap(window):
    # By hand: 5 samples in 90 s, a gap of 22.5 s; the end is 24 s away, within 24.75 s.
    samples = window([1e6, 1e6 + 1, None, None, 1e6 + 4, 1e6 + 5, 1e6 + 6])
    assert ask("increase", samples, 0, 114) == pytest.approx(6 * 114 / 90)


def test_last_two_samples_determine_irate(window):
    assert ask("irate", window([1, 2, 100, 130]), 0, 600) == 2
    assert ask("idelta", window([1, 2, 100, 130]), 0, 600) == 30
    assert ask("irate", window([1, 2, 100, 30]), 0, 600) == 2
    assert ask("idelta", window([1, 2, 100, 30]), 0, 600) == -70
    assert ask("irate", window([1, 7, 7]), 0, 600) == 0
    assert ask("idelta", window([1, 7, 7]), 0, 600) == 0
    assert ask("irate", window([100, None, None, 130]), 0, 600) == pytest.approx(30 / 45)


def test_infinity_minus_infinity_is_nan(window):
    for name in ("increase", "rate", "delta", "irate", "idelta"):
        assert math.isnan(ask(name, window([math.inf] * 3), 0, 30)), name


@pytest.mark.parametrize("name", ["rate", "increase", "delta", "irate", "idelta"])
def test_one_sample_has_no_rate(window, name):
    assert ask(name, window([5]), -60, 60) is None


@pytest.mark.parametrize("name", ["rate", "increase", "delta", "irate", "idelta"])
def test_constant_series_has_rate_zero(window, name):
    assert ask(name, window([5] * 17280, every=5), 0, 86400) == 0


def deriv(window):
    return RANGES["deriv"].compute(window, 0, 60_000)


def predict(window, now, seconds):
    return RANGES["predict_linear"].compute(window, 0, 60_000, now * 1000, seconds)


def test_straight_line_is_reproduced(window):
    samples = window([10, 13, 16, 19, 22])
    assert deriv(samples) == pytest.approx(0.2)
    assert predict(samples, 60, 0) == pytest.approx(22)
    assert predict(samples, 60, 100) == pytest.approx(42)
    assert predict(samples, 160, 0) == pytest.approx(42)


def test_only_predict_linear_needs_the_evaluation_time():
    assert [name for name, function in RANGES.items() if function.wants_time] == ["predict_linear"]


def test_least_squares_line_is_found(window):
    # By hand: x = 0, 15, 30, 45 and y = 0, 1, 1, 3; slope 67.5 / 1125, through (22.5, 1.25).
    samples = window([0, 1, 1, 3])
    assert deriv(samples) == pytest.approx(0.06)
    assert predict(samples, 45, 10) == pytest.approx(1.25 + 32.5 * 0.06)


def test_missing_samples_do_not_bias_the_line(window):
    assert deriv(window([1, None, 3, 3 + 1 / 3 * 3])) == pytest.approx(1 / 15)


@pytest.mark.parametrize("value", [7.0, -0.0, 1e308])
def test_constant_has_slope_zero_exactly(window, value):
    assert deriv(window([value] * 3)) == 0
    assert predict(window([value] * 3), 1e9, 1e9) == value


@pytest.mark.parametrize(
    "values", [[math.inf] * 3, [math.nan] * 3, [1, math.nan], [1, math.inf], [1e308, -1e308, 0]]
)
def test_nan_or_overflow_has_no_line(window, values):
    assert not math.isfinite(deriv(window(values)))
    assert not math.isfinite(predict(window(values), 60, 1))


def test_one_sample_has_no_line(window):
    assert deriv(window([5])) is None
    assert predict(window([5]), 60, 1) is None
