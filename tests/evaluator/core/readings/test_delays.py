"""Readings stay fresh for longer while the port of agents restarts: once, and only those that were fresh."""

import pytest

from evaluator.core.readings.store import Store
from wire.codec import Delta

STALE, RECONNECT, START = 30.0, 20.0, 1000.0


@pytest.fixture
def store():
    made = Store(stale_after=STALE, started=START - 1000, reconnect=RECONNECT)
    made.subscribe(["cpu"])
    made.report("a", Delta({"cpu": 7.0}), START)
    return made


def fresh(store, now, node="a"):
    return bool(store.column("cpu", [node], now).fresh[0])


def test_readings_from_before_a_restart_are_fresh_for_the_time_of_reconnecting_more(store):
    assert not fresh(store, START + STALE + 1)
    store.port_restarted(START + 10)
    assert store.next_expiry(START + STALE + 1) == START + STALE + RECONNECT
    assert fresh(store, START + STALE + RECONNECT)
    assert not fresh(store, START + STALE + RECONNECT + 1)


@pytest.mark.parametrize("every", [1, 7, 19])
def test_any_number_of_restarts_count_once_from_the_reading(store, every):
    for second in range(10, 60, every):
        store.port_restarted(START + second)
    assert fresh(store, START + STALE + RECONNECT)
    assert not fresh(store, START + STALE + RECONNECT + 1)


def test_reading_that_was_stale_at_the_restart_stays_stale(store):
    store.port_restarted(START + STALE + 1)
    assert not fresh(store, START + STALE + 2)


def test_reading_after_the_restart_has_the_usual_time(store):
    store.port_restarted(START + 10)
    store.report("a", Delta({"cpu": 7.0}), START + 12)
    assert fresh(store, START + 12 + STALE)
    assert not fresh(store, START + 12 + STALE + 1)


def test_snapshot_keeps_what_was_known_of_restarts(store):
    with store.snapshot(["a"]) as before:
        store.port_restarted(START + 10)
        assert not fresh(before, START + STALE + 1)
    assert fresh(store, START + STALE + 1)


def test_unread_metric_of_an_agent_that_reports_has_the_longer_time_as_well(store):
    store.report("a", Delta({}, unread=["cpu"]), START + 5)
    store.port_restarted(START + 10)
    assert fresh(store, START + STALE + RECONNECT)
    assert store.next_expiry(START + STALE + 6) == START + STALE + RECONNECT
