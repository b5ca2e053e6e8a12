"""Properties of expressions for all samples."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql import labels
from agent.rules.promql.expression import parse
from agent.rules.promql.values import Moment
from agent.rules.storage.exposition import MemoryStorage

NOW = 10_000_000
# Integers, whose sums and differences are exact in any order.
numbers = st.integers(-(2**40), 2**40).map(float)
pairs = st.fixed_dictionaries({}, optional={name: st.sampled_from("xyz") for name in "abc"})


def key(name, **having):
    return labels.make([(labels.NAME, name), *having.items()])


def key_of(of):
    """A counter's labels after a function."""
    return labels.make([("of", of)])


def asked(listed, text, time=NOW):
    """A vector as {labels: value}."""
    return dict(parse(text).evaluate(Moment(listed, time)))


@st.composite
def vectors(draw, *names):
    """Series of these names with some labels, all with one sample now."""
    samples = {}
    for name in names:
        for having in draw(st.lists(pairs, min_size=1, max_size=8)):
            samples[key(name, **having)] = [(NOW, draw(numbers))]
    return MemoryStorage(samples)


@st.composite
def times(draw):
    """Distinct sample times of a series, in seconds before now."""
    ages = draw(st.lists(st.integers(0, 290_000), min_size=2, max_size=30, unique=True))
    return [NOW - age for age in sorted(ages, reverse=True)]


@st.composite
def counters(draw):
    """A counter with observable steps and resets."""
    when = draw(times())
    steps = [float(draw(st.integers(0, 1000))) for _ in when]
    fresh = [draw(st.booleans()) for _ in when]
    total = list(itertools.accumulate(steps))
    restarting, value = [], 0.0
    for step, again in zip(steps, fresh, strict=True):
        value = step if again and step < value else value + step
        restarting.append(value)
    return MemoryStorage(
        {
            key("c", of="total"): list(zip(when, total, strict=True)),
            key("c", of="restarting"): list(zip(when, restarting, strict=True)),
        }
    )


@given(vectors("v"))
def test_parts_sum_to_the_whole(listed):
    for by in ("by (a)", "by (a, b)", "without (a)", "by ()", "without ()"):
        assert asked(listed, f"sum(sum {by} (v))") == asked(listed, "sum(v)")
        assert asked(listed, f"sum(count {by} (v))") == asked(listed, "count(v)")
        assert asked(listed, f"max(max {by} (v))") == asked(listed, "max(v)")
        assert asked(listed, f"min(min {by} (v))") == asked(listed, "min(v)")


@given(vectors("v"))
def test_by_some_labels_equals_without_the_others(listed):
    assert asked(listed, "sum by (a) (v)") == asked(listed, "sum without (b, c) (v)")
    assert asked(listed, "sum by (a, b, c) (v)") == asked(listed, "sum without () (v)")


@given(vectors("v"), st.integers(0, 10))
def test_bottomk_equals_topk_of_the_negated(listed, k):
    lowest = asked(listed, f"-bottomk({k}, v)").values()
    assert sorted(lowest) == sorted(asked(listed, f"topk({k}, -v)").values())
    assert len(lowest) == min(k, asked(listed, "count(v)")[labels.EMPTY])


@given(vectors("v"), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_from_minimum_to_maximum(listed, one, other):
    low, high = sorted((one, other))
    found = [asked(listed, f"quantile({q!r}, v)")[labels.EMPTY] for q in (0, low, high, 1)]
    assert found[0] == asked(listed, "min(v)")[labels.EMPTY]
    assert found[3] == asked(listed, "max(v)")[labels.EMPTY]
    for below, above in itertools.pairwise(found):
        assert below <= above or math.isclose(below, above)


@given(vectors("v", "w"))
def test_and_and_unless_partition_the_left_side(listed):
    for on in ("", "on (a)", "ignoring (a)", "on ()"):
        both, rest = asked(listed, f"v and {on} w"), asked(listed, f"v unless {on} w")
        assert not both.keys() & rest.keys()
        assert both | rest == asked(listed, "v")
        assert asked(listed, f"v or {on} w") == asked(listed, "v") | asked(
            listed, f"w unless {on} v"
        )


@given(vectors("v"))
def test_unmatched_label_replace_changes_nothing(listed):
    assert asked(listed, 'label_replace(v, "a", "new", "b", "none")') == asked(listed, "v")
    named = asked(listed, 'label_replace(v, "d", "$1", "a", "(.*)")')
    assert {labels.replace(one, {"d": ""}): value for one, value in named.items()} == asked(
        listed, "v"
    )


@given(counters())
def test_counter_reset_loses_no_increase(listed):
    """A reset to zero loses no increase, and no rate is negative."""
    for function in ("increase", "rate", "irate"):
        found = asked(listed, f"{function}(c[5m])")
        total, restarting = found[key_of("total")], found[key_of("restarting")]
        assert total >= 0
        assert math.isclose(total, restarting)


@given(counters())
def test_rate_is_increase_per_second(listed):
    rates, increases = asked(listed, "rate(c[5m]) * 300"), asked(listed, "increase(c[5m])")
    assert rates.keys() == increases.keys()
    for one, value in rates.items():
        assert math.isclose(value, increases[one], rel_tol=1e-12)


@given(counters())
def test_resets_are_falls_and_falls_are_changes(listed):
    resets, changes = asked(listed, "resets(c[5m])"), asked(listed, "changes(c[5m])")
    assert resets[key_of("total")] == 0
    for one, value in resets.items():
        assert value <= changes[one]


@given(counters(), st.integers(1, 299_998))
def test_range_is_the_sum_of_its_parts(listed, cut):
    for function in ("count", "sum"):
        whole = asked(listed, f"{function}_over_time(c[5m])")
        late = asked(listed, f"{function}_over_time(c[{cut}ms])")
        early = asked(listed, f"{function}_over_time(c[{300_000 - cut}ms] offset {cut}ms)")
        assert whole == {one: late.get(one, 0.0) + early.get(one, 0.0) for one in whole}


@pytest.mark.parametrize("shift", [1, 12_345, 86_400_000])
@given(counters())
def test_shifted_samples_have_equal_results(shift, listed):
    shifted = MemoryStorage(
        {
            series.labels: [
                (time + shift, value)
                for time, value in zip(window.times, window.values(), strict=True)
            ]
            for series in listed.select(parse("c").needs[0].selector)
            if (window := series.window(0, NOW))
        }
    )
    for text in ("c", "rate(c[5m])", "deriv(c[4m] offset 1s)", "increase(c[2m] offset 17s)"):
        assert asked(shifted, text, NOW + shift) == asked(listed, text)
