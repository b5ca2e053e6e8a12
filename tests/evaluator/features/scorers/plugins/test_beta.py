"""The beta distribution against 50-digit references, and its properties for any parameters."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.features.scorers.plugins import beta
from tests.examples import examples

PROMISED = 1e-9
_BITS = 200


def reference(x, a, b):
    """Both tails: x^a (1-x)^b / (a B(a, b)) times a series of positive terms, in integers of 2^-200."""
    with mpmath.workdps(50):
        x = mpmath.mpf(x)
        if x * (a + b) <= a:
            lower = _series(x, a, b)
            return lower, 1 - lower
        upper = _series(1 - x, b, a)
        return 1 - upper, upper


def _series(x, a, b):
    a, b = mpmath.mpf(a), mpmath.mpf(b)
    powers = a * mpmath.log(x) + b * mpmath.log1p(-x)
    gammas = mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b)
    one = 1 << _BITS
    share, above, beneath = int(x * one), int((a + b) * one), int((a + 1) * one)
    term = total = one
    while term > 1 << 60:
        term = (term * above // beneath) * share >> _BITS
        total += term
        above, beneath = above + one, beneath + one
    return mpmath.exp(powers + gammas) / a * mpmath.mpf(total) / one


def one(x, a, b):
    lower, upper = beta.tails(x, np.array([a]), np.array([b]))
    return float(lower[0]), float(upper[0])


def test_reference_agrees_with_mpmath():
    with mpmath.workdps(50):
        for x, a, b in [(0.9, 57.668, 23.2695), (0.3, 0.5, 2.5), (0.5, 40.0, 35.0)]:
            exact = mpmath.betainc(a, b, 0, x, regularized=True)
            assert abs(reference(x, a, b)[0] - exact) < mpmath.mpf(10) ** -40


@pytest.mark.parametrize("total", [0.01, 1.0, 5.0, 60.0, 990.0, 1010.0, 4e3, 1e5, 3e6, 1e8])
@pytest.mark.parametrize("mean", [1e-3, 0.1, 0.5, 0.725, 0.9, 0.99])
def test_both_tails_are_exact_to_nine_digits(total, mean, soak):
    distances = [-9.0, -3.6, -3.4, -1.0, 0.0, 0.7, 3.0, 20.0]
    if total > 1e6 and not soak:
        distances = [-3.4, 3.0] if total < 1e7 else [3.0]  # others take the reference a second
    deviation = np.sqrt(mean * (1 - mean) / (total + 1))
    for distance in distances:
        x = float(mean + distance * deviation)
        if not 0.0 < x < 1.0:
            continue
        a, b = mean * total, (1 - mean) * total
        for got, exact in zip(one(x, a, b), reference(x, a, b), strict=True):
            # With both below 1, the shorter tail may be less than the rounding of the longer one.
            slack = 1e-13 if min(a, b) < 1 else 1e-300
            assert abs(got - exact) <= PROMISED * exact + slack, (x, a, b)


@pytest.mark.parametrize(
    ("mean", "deviation", "risk"), [(0.899, 0.005, 0.4263), (0.905, 0.005, 0.8414)]
)
def test_result_is_correct_where_powers_underflow(mean, deviation, risk):
    precision = mean * (1 - mean) / deviation**2 - 1
    assert one(0.9, mean * precision, (1 - mean) * precision)[1] == pytest.approx(risk, abs=5e-5)


@pytest.mark.parametrize(("x", "lower"), [(-0.5, 0.0), (0.0, 0.0), (1.0, 1.0), (1.5, 1.0)])
def test_result_is_0_or_1_at_and_beyond_the_ends(x, lower):
    assert one(x, 3.0, 4.0) == (lower, 1.0 - lower)


@pytest.mark.parametrize("a", [np.nan, np.inf, -1.0, 0.0])
def test_invalid_parameters_give_unknown(a):
    assert np.isnan(one(0.5, a, 2.0)).all()
    assert np.isnan(one(0.5, 2.0, a)).all()
    assert np.isnan(one(0.0, a, 2.0)).all()


def test_unknown_argument_gives_unknown():
    assert np.isnan(one(np.nan, 2.0, 3.0)).all()


def test_tables_and_empty_arrays_are_accepted():
    table = np.array([[1.0, 2.0], [3.0, np.nan]])
    found = beta.tail(0.5, table, np.ones((2, 2)))
    assert found[~np.isnan(found)].tolist() == pytest.approx([0.5, 0.25, 0.125])
    assert beta.tail(0.5, np.empty(0), np.empty(0)).size == 0


parameters = st.floats(-3, 8).map(lambda power: 10.0**power)
places = st.floats(0.0, 1.0)


@given(places, parameters, parameters)
def test_result_is_a_probability_and_tails_sum_to_one(x, a, b):
    lower, upper = one(x, a, b)
    assert 0.0 <= lower <= 1.0
    assert 0.0 <= upper <= 1.0
    assert lower + upper == pytest.approx(1.0, abs=1e-15)


@given(places.map(lambda x: round(x * 2**40) / 2**40), parameters, parameters)
def test_mirrored_distribution_gives_the_other_tail(x, a, b):
    lower, upper = one(x, a, b)
    assert one(1.0 - x, b, a) == pytest.approx((upper, lower), rel=PROMISED, abs=1e-12)


@given(st.tuples(places, places).map(sorted), parameters, parameters)
def test_result_grows_with_the_argument(pair, a, b):
    assert one(pair[0], a, b)[0] <= one(pair[1], a, b)[0] + 1e-10


@settings(max_examples=examples(10))
@given(places, parameters, parameters, st.randoms())
def test_elements_are_independent(x, a, b, random):
    others = [10.0 ** random.uniform(-3, 8) for _ in range(20)]
    together = beta.tails(x, np.array([a, *others]), np.array([b, *reversed(others)]))
    alone = one(x, a, b)
    assert (together[0][0], together[1][0]) == pytest.approx(alone, rel=1e-11, abs=1e-300)


@given(st.floats(), st.floats(), st.floats())
def test_any_numbers_are_accepted(x, a, b):
    with np.errstate(all="ignore"):
        lower, upper = one(x, a, b)
    assert np.isnan(lower) == np.isnan(upper)
