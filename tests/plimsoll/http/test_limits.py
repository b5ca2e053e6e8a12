"""Rates of requests per connection and per address."""

from plimsoll.http.limits import RequestRate, RequestRates

RATE = RequestRate(connection=10.0, address=20.0, burst=5)


def waits(rate, times, now=100.0):
    return [round(rate.wait(now), 3) for _ in range(times)]


def test_burst_is_answered_at_once_and_the_rest_at_the_rate_of_the_connection():
    assert waits(RequestRates(RATE).connection("a"), 7) == [0.0] * 5 + [0.1, 0.2]


def test_connections_of_one_address_share_its_rate():
    rates = RequestRates(RATE)
    one, other = rates.connection("a"), rates.connection("a")
    assert waits(one, 4) == [0.0] * 4
    assert waits(other, 3) == [0.0, 0.05, 0.1]


def test_other_addresses_do_not_wait():
    rates = RequestRates(RATE)
    waits(rates.connection("a"), 50)
    assert waits(rates.connection("b"), 5) == [0.0] * 5


def test_without_a_rate_no_request_waits():
    assert waits(RequestRates(None).connection("a"), 1_000) == [0.0] * 1_000
