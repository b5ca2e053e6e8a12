"""Cached results per set of label sets, and their invalidation."""

from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql.memo import columns, latest, picker

ONE, TWO = (("i", "1"),), (("i", "2"),)


def test_result_is_cached_until_the_input_changes():
    asked = []

    def work(sets):
        asked.append(sets)
        return len(sets)

    known = latest(work)
    assert [known(sets) for sets in ((ONE,), (ONE,), (ONE, TWO), (ONE, TWO), (ONE,))] == [
        1,
        1,
        2,
        2,
        1,
    ]
    assert asked == [(ONE,), (ONE, TWO), (ONE,)]


def test_equal_label_sets_need_not_be_the_same_object():
    known = latest(list)
    first = known((ONE, TWO))
    assert known(tuple((("i", i),) for i in "12")) is first


def test_failed_computation_is_repeated():
    known = latest(lambda number: 1 / number)
    for number, expected in [(1, 1.0), (0, None), (0, None), (1, 1.0)]:
        try:
            found = known(number)
        except ZeroDivisionError:
            found = None
        assert found == expected


def test_vector_splits_into_two_columns():
    assert columns([(ONE, 1.0), (TWO, 2.0)]) == ((ONE, TWO), (1.0, 2.0))
    assert columns([]) == ((), ())


@given(st.data())
def test_picked_elements_are_in_the_given_order(data):
    column = data.draw(st.lists(st.integers(), min_size=1))
    places = data.draw(st.lists(st.integers(0, len(column) - 1)))
    assert list(picker(places)(column)) == [column[place] for place in places]
    assert list(picker(places)(tuple(column))) == [column[place] for place in places]
