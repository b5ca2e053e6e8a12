"""Retry delays: bounds for any random source."""

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.backoff import Backoff

ALMOST_ONE = 1.0 - 2**-53


@given(
    st.lists(st.floats(0, ALMOST_ONE), min_size=1, max_size=80),
    st.floats(0.01, 5.0),
    st.floats(5.0, 600.0),
)
def test_delay_is_between_a_tenth_of_its_bound_and_the_longest(draws, first, longest):
    rolls = iter(draws)
    backoff = Backoff(lambda: next(rolls), first=first, longest=longest)
    for failures in range(len(draws)):
        bound = min(longest, first * 2.0**failures)
        assert 0.1 * bound <= backoff.next() <= bound


def test_delays_double_until_the_longest():
    backoff = Backoff(lambda: ALMOST_ONE, first=0.5, longest=4.0)
    assert [round(backoff.next(), 6) for _ in range(5)] == [0.5, 1.0, 2.0, 4.0, 4.0]


def test_success_restarts_from_the_shortest_delay():
    backoff = Backoff(lambda: 0.0, first=1.0, longest=60.0)
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == 0.1


def test_years_of_failures_cause_no_overflow():
    backoff = Backoff(lambda: 0.5)
    delays = [backoff.next() for _ in range(5000)]
    assert delays[-1] == 30.0 * 0.55
