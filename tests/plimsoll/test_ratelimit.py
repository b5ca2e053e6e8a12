"""The token bucket: free up to the burst, then the rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.ratelimit import TokenBucket


def test_burst_is_free_and_then_the_rate_applies():
    bucket = TokenBucket(rate=10.0, burst=3)
    assert [round(bucket.take(100.0), 9) for _ in range(6)] == [0, 0, 0, 0.1, 0.2, 0.3]


def test_unused_tokens_accumulate_up_to_the_burst():
    bucket = TokenBucket(rate=10.0, burst=3)
    for _ in range(3):
        bucket.take(100.0)
    assert bucket.take(100.1) == pytest.approx(0)
    assert bucket.take(100.1) == pytest.approx(0.1)
    assert [round(bucket.take(999.0), 9) for _ in range(4)] == [0, 0, 0, 0.1]


def test_no_burst_follows_a_pause():
    bucket = TokenBucket(rate=10.0, burst=3)
    bucket.empty(until=107.0)
    assert [round(bucket.take(100.0), 9) for _ in range(3)] == [7, 7.1, 7.2]


def test_longer_of_two_pauses_counts():
    bucket = TokenBucket(rate=10.0, burst=1)
    bucket.empty(until=107.0)
    bucket.empty(until=103.0)
    assert bucket.take(100.0) == pytest.approx(7)


@given(
    st.floats(0.5, 500),
    st.integers(1, 50),
    st.lists(st.floats(0, 3), min_size=1, max_size=200),
)
def test_any_interval_has_at_most_burst_plus_rate(rate, burst, pauses):
    bucket = TokenBucket(rate, burst)
    now, used = 50.0, []
    for pause in pauses:
        now += pause
        used.append(now + bucket.take(now))
    for first, begin in enumerate(used):
        for last in range(first, len(used)):
            allowed = burst + rate * (used[last] - begin) + 1e-6
            assert last - first + 1 <= allowed


def test_rejected_take_costs_nothing():
    bucket = TokenBucket(rate=1, burst=3)
    assert [bucket.take_now(100.0) for _ in range(5)] == [True, True, True, False, False]
    assert [bucket.take_now(101.0) for _ in range(2)] == [True, False]
    assert [bucket.take_now(1000.0) for _ in range(4)] == [True, True, True, False]
