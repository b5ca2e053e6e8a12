"""deriv() and predict_linear()."""

import math

import pytest

from agent.rules.promql.functions import RANGES


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
