"""topk: the largest numbers; ties are tested with the aggregations."""

import math

from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql.operators.reductions import largest


@given(st.integers(1, 12), st.lists(st.floats() | st.sampled_from([0.0, 1.0]), max_size=20))
def test_largest_values_come_first_and_nan_last(wanted, numbers):
    places = largest(wanted, numbers)
    assert len(set(places)) == len(places)
    found = [numbers[place] for place in places]
    known = sorted((number for number in numbers if not math.isnan(number)), reverse=True)
    assert found[: len(known)] == known[:wanted]
    assert all(map(math.isnan, found[len(known) :]))
    assert len(found) == min(wanted, len(numbers))
