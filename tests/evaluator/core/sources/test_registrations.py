"""A deleted and recreated node is a new node: readings of the first do not count."""

import numpy as np
import pytest

from evaluator.core.readings.column import Reading
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store
from evaluator.core.sources.build import Registrations
from wire.codec import Delta

STALE = 30.0
NOW = 10_000.0


@pytest.fixture
def store():
    made = Store(stale_after=STALE, started=0.0)
    made.subscribe(["m"])
    made.report("a", Delta({"m": 1.0}), NOW)
    return made


@pytest.fixture
def polls():
    made = PolledReadings("prometheus", stale_after=STALE, started=0.0)
    made.subscribe(["m"])
    made.answer("m", {"a": Reading(1, 1.0, NOW), "b": Reading(1, 2.0, NOW)}, NOW)
    return made


@pytest.fixture
def registrations(store, polls):
    return Registrations(store, [polls])


def unreported(store, node, now):
    return bool(store.column("m", (node,), now).unreported[0])


def test_deleted_node_has_no_reading(registrations, store, polls):
    registrations.changed("a", registered=False, now=NOW + 1)
    assert store.reading("m", "a").samples == 0
    column = polls.column("m", ("a", "b"), NOW + 1)
    assert column.samples.tolist() == [0, 1]
    assert np.isnan(column.values[0])
    assert not unreported(store, "a", NOW + 1)


def test_node_recreated_within_seconds_is_pending(registrations, store):
    registrations.changed("a", registered=False, now=NOW + 1)
    registrations.changed("a", registered=True, now=NOW + 3)
    assert unreported(store, "a", NOW + 4)
    assert not unreported(store, "a", NOW + 3 + STALE)


def test_node_replaced_unseen_is_pending(registrations, store):
    """A watch that broke finds another uid under the same name."""
    registrations.changed("a", registered=True, now=NOW + 3)
    assert unreported(store, "a", NOW + 4)
    assert store.reading("m", "a").samples == 0


def test_node_with_a_new_name_is_not_pending(registrations, store):
    registrations.changed("new", registered=True, now=NOW + 3)
    assert not unreported(store, "new", NOW + 4)


def test_short_lived_names_do_not_accumulate(registrations, store):
    rows = store.rows
    for number in range(rows + 100):
        at = NOW + number
        store.report(f"n{number}", Delta({"m": 1.0}), at)
        registrations.changed(f"n{number}", registered=False, now=at)
    assert len(registrations._deleted) <= STALE + 1
    assert store.rows == rows


def test_polled_readings_are_dropped_without_agents(polls):
    Registrations(None, [polls]).changed("a", registered=True, now=NOW)
    assert polls.column("m", ("a",), NOW).samples.tolist() == [0]
