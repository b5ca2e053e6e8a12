"""Properties for all samples: no function raises, run-length encoding does not matter, results stay within bounds."""

import math
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql.functions import POINTWISE, RANGES
from agent.rules.promql.functions.histograms import bucket_quantile, histogram_quantile
from agent.rules.promql.functions.labels import parse_template
from agent.rules.promql.values import Window

ANY = st.floats()
TAME = st.one_of(
    st.integers(-5, 5).map(float), st.floats(-1e6, 1e6, allow_subnormal=False), st.just(math.nan)
)
COUNTED = st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=2, max_size=30)
EXTRA = {"quantile_over_time": (0.3,), "predict_linear": (1e6, 60.0)}
END = 10_000_000


def window(runs, gaps=None):
    """A window of (value, repeats), a second apart, or with `gaps` in milliseconds in turn."""
    count = sum(repeat for _, repeat in runs)
    steps = [1000] * count if gaps is None else [gaps[index % len(gaps)] for index in range(count)]
    levels, repeats = zip(*runs, strict=True)
    return Window(list(accumulate(steps)), list(levels), list(repeats))


def runs_of(values):
    return st.lists(st.tuples(values, st.integers(1, 9)), min_size=1, max_size=12)


def ask(name, samples):
    return RANGES[name].compute(samples, 0, END, *EXTRA.get(name, ()))


def same(one, other):
    if one is None or other is None or one != one:
        return one is other or (one != one and other is not None and other != other)
    return one == pytest.approx(other, rel=1e-9, abs=1e-12)


@given(runs_of(ANY), st.lists(st.integers(1, 100_000), min_size=1), ANY)
def test_no_samples_make_a_range_function_raise(runs, gaps, number):
    samples = window(runs, gaps)
    for name, function in RANGES.items():
        numbers = {"quantile_over_time": (number,), "predict_linear": (1e6, number)}.get(name, ())
        found = function.compute(samples, 0, END, *numbers)
        assert found is None or isinstance(found, float), name


@given(runs_of(TAME), st.lists(st.integers(1, 100_000), min_size=1))
def test_run_length_encoding_does_not_change_results(runs, gaps):
    merged = window(runs, gaps)
    single = window([(value, 1) for value in merged.values()], gaps)
    for name in RANGES:
        if name not in ("stddev_over_time", "stdvar_over_time", "deriv", "predict_linear"):
            assert same(ask(name, merged), ask(name, single)), name


@given(runs_of(st.integers(-1000, 1000).map(float)))
def test_spread_and_slope_of_runs_are_those_of_their_samples(runs):
    merged = window(runs)
    single = window([(value, 1) for value in merged.values()])
    for name in ("stddev_over_time", "stdvar_over_time", "deriv", "predict_linear"):
        assert same(ask(name, merged), ask(name, single)), name


@given(runs_of(st.integers(-1000, 1000).map(lambda value: value / 8)))
def test_sums_and_means_are_exact_where_possible(runs):
    samples = window(runs)
    values = samples.values()
    assert ask("sum_over_time", samples) == sum(values)
    mean = sum(values) / len(values)
    assert ask("avg_over_time", samples) == pytest.approx(mean, rel=1e-9, abs=1e-12)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    assert ask("stdvar_over_time", samples) == pytest.approx(variance, rel=1e-9, abs=1e-9)


@given(COUNTED)
def test_monotonic_counter_has_no_negative_rate(values):
    samples = window([(value, 1) for value in sorted(values)])
    for name in ("rate", "increase", "irate", "deriv"):
        assert ask(name, samples) >= (-1e-6 if name == "deriv" else 0), name
    assert ask("resets", samples) == 0


@given(COUNTED)
def test_increase_of_a_reset_counter_is_the_sum_of_its_steps(values):
    samples = window([(value, 1) for value in values])
    risen = sum(after if after < before else after - before for before, after in pairwise(values))
    ends = samples.times[0], samples.times[-1]
    assert RANGES["increase"].compute(samples, *ends) == pytest.approx(risen, rel=1e-9, abs=1e-6)


@given(COUNTED, st.integers(0, 100_000))
def test_rate_is_increase_per_second(values, beyond):
    samples = window([(value, 1) for value in values])
    end = samples.times[-1] + beyond
    increase = RANGES["increase"].compute(samples, 0, end)
    assert RANGES["rate"].compute(samples, 0, end) == pytest.approx(increase / (end / 1000))


@given(runs_of(st.floats(-1e300, 1e300)), st.floats(0, 1))
def test_quantiles_and_means_lie_between_the_extremes(runs, q):
    samples = window(runs)
    low, high = ask("min_over_time", samples), ask("max_over_time", samples)
    room = 1e-9 * max(abs(low), abs(high))
    found = RANGES["quantile_over_time"].compute(samples, 0, END, q)
    assert low - room <= found <= high + room
    assert low - room <= ask("avg_over_time", samples) <= high + room
    assert low <= ask("last_over_time", samples) <= high


@given(st.lists(ANY, min_size=3, max_size=3))
def test_no_number_makes_a_pointwise_function_raise(numbers):
    taken = {"clamp": 3, "clamp_max": 2, "clamp_min": 2, "round": 2}
    for name, function in POINTWISE.items():
        found = function(*numbers[: taken.get(name, 1)])
        assert found is None or isinstance(found, float), name


@given(st.lists(st.tuples(ANY, ANY), min_size=1, max_size=12), ANY)
def test_no_buckets_make_a_quantile_raise(buckets, q):
    assert isinstance(bucket_quantile(q, buckets), float)
    vector = [((("le", str(bound)), ("n", str(n))), c) for n, (bound, c) in enumerate(buckets)]
    histogram_quantile(q, vector)


@given(
    st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=2, max_size=12),
    st.floats(1e-6, 1),
    st.floats(1e-6, 1),
)
def test_quantiles_are_monotonic(steps, one, other):
    # Except for the quantile zero: with an empty first bucket it is NaN, in Prometheus too.
    counts = list(accumulate(steps))
    buckets = [
        *zip(map(float, range(1, len(counts))), counts, strict=False),
        (math.inf, counts[-1]),
    ]
    lower, upper = (bucket_quantile(q, buckets) for q in sorted((one, other)))
    assert counts[-1] == 0 or lower <= upper * (1 + 1e-9)


@given(st.text("$a1_{}é "))
def test_templates_accept_any_text_and_are_literal_without_a_dollar(text):
    assert len(parse_template(text).texts) == len(parse_template(text).groups) + 1
    plain = text.replace("$", "")
    assert parse_template(plain).texts == (plain,)
    assert parse_template(text.replace("$", "$$")).texts == (text,)
