"""The cluster cache turns stale when the API server sends nothing."""

import pytest

from evaluator.core.cache.staleness import WatchStaleness


@pytest.fixture
def fresh():
    return WatchStaleness(("nodes", "pods"), bound=60.0)


def test_kind_never_listed_is_missing_and_not_stale(fresh):
    assert fresh.stale(1e9) == []
    assert fresh.age("nodes", 5.0) is None


def test_each_kind_turns_stale_by_itself(fresh):
    fresh.observed("nodes", 100.0)
    fresh.observed("pods", 130.0)
    assert fresh.stale(160.0) == []
    assert fresh.stale(161.0) == ["updates of nodes from the API server (none for 61 s)"]
    assert len(fresh.stale(191.0)) == 2
    assert fresh.age("pods", 131.0) == 1.0


def test_first_event_after_a_long_silence_is_reported(fresh):
    assert not fresh.observed("nodes", 100.0), "the first event ends no silence"
    assert not fresh.observed("nodes", 160.0)
    assert fresh.observed("nodes", 221.0)
    assert fresh.stale(221.0) == []
