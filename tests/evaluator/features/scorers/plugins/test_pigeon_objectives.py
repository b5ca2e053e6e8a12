"""The objectives equal a recomputation over all nodes with the pod placed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.features.scorers.plugins import pigeon

SHARES = st.one_of(
    st.integers(0, 16).map(lambda n: n / 16),
    st.sampled_from([0.1, 0.2, 0.3, 0.7, 1 / 3]),
    st.floats(0, 1.5).map(lambda x: round(x, 6)),
)


@st.composite
def placements(draw, resources=1):
    count = draw(st.integers(1, 9))
    rows = st.lists(SHARES, min_size=resources, max_size=resources)
    table = st.lists(rows, min_size=count, max_size=count).map(np.array)
    before = draw(table)
    return before, before + draw(table) / 2


def slowly(objective, before, after):
    """Computed node by node with exact numbers up to the root."""
    found = []
    for place in range(len(before)):
        table = before.copy()
        table[place] = after[place]
        found.append(objective([[Fraction(x) for x in row] for row in table]))
    return found


def deviation(numbers):
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((x - mean) ** 2 for x in numbers) / len(numbers))


def spread(table):
    return deviation([row[0] for row in table])


def consolidation(table):
    x = [row[0] for row in table]
    mean = sum(x) / len(x)
    if mean <= 0 or mean >= 1:
        return 0.0
    apart = [(mean - n) / mean if n < mean else (n - mean) / (1 - mean) for n in x]
    return 1 - math.sqrt(sum(t * t for t in apart) / len(apart))


def variation(table):
    full = [[min(max(x, 0), 1) for x in row] for row in table]
    mean = [sum(column) / len(full) for column in zip(*full, strict=True)]
    squared = sum(m * m for m in mean)
    if not squared:
        return 0.0
    products = [sum(x * m for x, m in zip(row, mean, strict=True)) for row in full]
    return deviation(products) / float(squared)


@pytest.fixture
def examples(soak):
    return 5000 if soak else 40


def test_load_balance_is_the_standard_deviation(examples):
    @given(placements())
    @settings(max_examples=examples)
    def check(placement):
        found = pigeon.load_balance(*placement)
        assert found == pytest.approx(slowly(spread, *placement), rel=1e-9, abs=1e-9)

    check()


def test_consolidation_is_the_distance_from_full_and_empty(examples):
    @given(placements())
    @settings(max_examples=examples)
    def check(placement):
        found = pigeon.consolidate(*placement)
        exact = slowly(consolidation, *placement)
        means = placement[0].mean() + (placement[1] - placement[0])[:, 0] / len(placement[0])
        near_one = np.abs(1 - means) < 1e-6  # its side of the mean is up to rounding
        assert found[~near_one] == pytest.approx(np.array(exact)[~near_one], rel=1e-9, abs=1e-9)

    check()


@pytest.mark.parametrize("resources", [1, 2, 3])
def test_bin_packing_is_the_difference_of_variations(resources, examples):
    @given(placements(resources), st.sampled_from([0.0, 0.25, 2.0]))
    @settings(max_examples=examples)
    def check(placement, demand):
        before, after = placement
        exact = [abs(x - demand) for x in slowly(variation, before, after)]
        squared = (np.clip(before, 0, 1).sum(axis=0) ** 2).sum()
        loose = squared < 1e-6  # nodes that are idle except for a millionth of one
        found = pigeon.bin_pack(before, after, demand)
        # The root of a variance that is 0 except for rounding, where several nodes equalize each other.
        assert loose or found == pytest.approx(exact, rel=1e-9, abs=1e-7)
        regular = np.abs(np.array(exact) - demand) > 1e-6
        assert loose or found[regular] == pytest.approx(
            np.array(exact)[regular], rel=1e-9, abs=1e-9
        )

    check()


@pytest.mark.parametrize(
    "objective",
    [
        pigeon.load_balance,
        pigeon.consolidate,
        lambda before, after: pigeon.bin_pack(before, after, 0.0),
    ],
)
def test_thousands_of_nearly_equal_nodes_are_distinguished(objective):
    """Sums of squares that are not centred would lose all differences."""
    before = np.full((5000, 2), 0.3) + np.arange(5000)[:, None] * 1e-12
    found = objective(before, before + 0.1)
    exact = {pigeon.load_balance: spread, pigeon.consolidate: consolidation}
    naive = exact.get(objective, variation)
    for place in (0, 2500, 4999):
        table = before.copy()
        table[place] += 0.1
        wanted = naive([[Fraction(x) for x in row] for row in table])
        assert found[place] == pytest.approx(wanted, rel=1e-9)


def test_common_change_keeps_the_difference_between_nodes():
    """One node is off and the pod equalizes it: 1e-10 is expected, not the root of a rounding error."""
    before = np.array([[0.7 - 1e-10], [0.7], [0.3], [0.7 + 1e-10], [0.7]])
    after = before.copy()
    after[2] = 0.7
    left = slowly(spread, before, after)[2]
    assert left == pytest.approx(math.sqrt(2e-20 / 5), rel=1e-5)
    assert pigeon.load_balance(before, after)[2] == pytest.approx(left, rel=1e-5)
    lacking = 1 - slowly(consolidation, before, after)[2]
    assert 1 - pigeon.consolidate(before, after)[2] == pytest.approx(lacking, abs=1e-12)
    wanted = slowly(variation, before, after)[2]
    assert pigeon.bin_pack(before, after, 0.0)[2] == pytest.approx(wanted, rel=1e-5)


def test_no_nodes_have_no_objective():
    none = np.zeros((0, 2))
    assert pigeon.load_balance(none, none).tolist() == []
    assert pigeon.consolidate(none, none).tolist() == []
    assert pigeon.bin_pack(none, none, 1.0).tolist() == []


def test_variation_of_a_constant_is_zero():
    assert pigeon.variation(np.array([2.0, 3.0]), np.zeros((2, 2))) == 0.0
    assert pigeon.variation(np.zeros(2), np.eye(2)) == 0.0
    assert pigeon.variation(np.array([2.0]), np.array([[9.0]])) == 1.5
