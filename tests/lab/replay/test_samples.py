"""Merging series: in consecutive parts as at once, and several series of one node as in a live answer."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.replay.samples import Merge, Series, merged

STALE = 30.0
times = st.sets(st.integers(0, 40), max_size=12).map(sorted)
recordings = st.lists(st.tuples(st.integers(0, 2), times), max_size=6)


def series(node, at, number):
    values = [100.0 * number + tick for tick in at]
    return Series(node, 10.0 * np.array(at), np.array(values), np.ones(len(at), np.int32))


def cut(one, begin, end):
    inside = (one.times > begin) & (one.times <= end)
    return Series(one.node, one.times[inside], one.values[inside], one.counts[inside])


def rows(samples):
    return [*map(repr, zip(*(column.tolist() for column in samples), strict=True))]


@given(recordings, st.sets(st.integers(0, 40), max_size=3))
def test_parts_are_merged_as_the_whole(recorded, cuts):
    whole = {n: series(node, at, n) for n, (node, at) in enumerate(recorded)}
    merge, found, begin = Merge(STALE), [], -np.inf
    for end in [*(10.0 * cut for cut in sorted(cuts)), np.inf]:
        part = merge.part({key: cut(one, begin, end) for key, one in whole.items()})
        assert (np.diff(part.times) >= 0).all()
        found += rows(part)
        begin = end
    assert sorted(found) == sorted(rows(merged([*whole.values()], STALE)))


def test_a_second_series_of_a_node_has_no_single_value_until_the_first_is_stale():
    found = merged([series(0, [0, 1], 0), series(0, [2, 3, 4, 5], 1)], STALE)
    assert found.counts.tolist() == [1, 1, 2, 2, 2, 1]
    assert np.isnan(found.values).tolist() == [False, False, True, True, True, False]
