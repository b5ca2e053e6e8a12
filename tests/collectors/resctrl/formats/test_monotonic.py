from hypothesis import given
from hypothesis import strategies as st

from collectors.resctrl.formats.monotonic import Increases


def total(*readings: int | None) -> int:
    """The sum over one counter that exists from the first read."""
    increases: Increases[str] = Increases()
    return sum(increases.advance({"a": reading}).get("a", 0) for reading in readings)


def test_count_before_the_first_read_is_no_increase() -> None:
    assert total(5000) == 0
    assert total(5000, 5100, 5100, 5250) == 250


def test_unreadable_counter_starts_at_its_first_reading() -> None:
    assert total(None, None, 5000, 5100) == 100


def test_counter_that_appears_later_starts_at_zero() -> None:
    increases: Increases[str] = Increases()
    increases.advance({"a": 1})
    assert increases.advance({"a": 1, "b": 700}) == {"a": 0, "b": 700}
    assert increases.advance({"a": 1, "b": 700, "c": None}) == {"a": 0, "b": 0}
    assert increases.advance({"c": 30})["c"] == 30


def test_growth_while_unreadable_is_counted_afterwards() -> None:
    assert total(100, None, None, 160) == 60


def test_reset_counter_continues_counting() -> None:
    assert total(1000, 1100, 0, 40, 90) == 100 + 90


def test_temporary_dip_counts_nothing_twice() -> None:
    assert total(1000, 1100, 0, 1105) == 105
    assert total(1000, 1100, 0, 20, 1105) == 125


def test_slightly_lower_reading_is_no_reset() -> None:
    assert total(1000, 998, 999, 1001) == 1


def test_briefly_missing_counter_is_remembered() -> None:
    increases: Increases[str] = Increases()
    increases.advance({"a": 1000})
    increases.advance({})
    assert increases.advance({"a": 1010}) == {"a": 10}


def test_removed_counter_is_forgotten() -> None:
    increases: Increases[str] = Increases()
    increases.advance({"a": 1000})
    for _ in range(3):
        increases.advance({})
    assert increases.advance({"a": 20}) == {"a": 20}


@given(st.lists(st.none() | st.integers(0, 1 << 64), max_size=50))
def test_increase_is_between_zero_and_the_counter(readings) -> None:
    increases: Increases[str] = Increases()
    for reading in readings:
        grown = increases.advance({"a": reading})
        assert grown.keys() == (set() if reading is None else {"a"})
        assert 0 <= grown.get("a", 0) <= (reading or 0)


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=50))
def test_monotonic_counter_is_counted_exactly(steps) -> None:
    readings, truth = [], 7
    for growth, readable in steps:
        truth += growth
        readings.append(truth if readable else None)
    assert total(7, *readings, truth) == truth - 7
