"""Subqueries: the windows made of a vector's values."""

import math

from agent.rules.promql import labels
from agent.rules.promql.plan import Instant
from agent.rules.promql.selectors import subquery
from agent.rules.promql.values import Moment, Window
from agent.rules.storage.exposition import MemoryStorage

A = labels.of_series("a", ())
VALUES = {0: 1.0, 10: 1.0, 20: math.nan, 30: math.nan, 50: 2.0, 60: 1.0}


def values(moment):
    return [(A, VALUES[moment.time])] if moment.time in VALUES else []


def test_equal_consecutive_values_share_a_level():
    made = subquery(Instant(values), 60, 10, 0)
    ((found, window),) = made.samples(Moment(MemoryStorage(), 60), 0, 60)
    assert found == A
    assert list(window.times) == [0, 10, 20, 30, 50, 60]
    assert [str(level) for level in window.levels] == ["1.0", "nan", "2.0", "1.0"]
    assert list(window.repeats) == [2, 2, 1, 1]


def test_range_between_two_steps_is_empty():
    made = subquery(Instant(values), 5, 10, 0)
    assert list(made.samples(Moment(MemoryStorage(), 59), 54, 59)) == []
    assert list(made.samples(Moment(MemoryStorage(), 50), 45, 50)) == [
        (A, Window([50], [2.0], [1]))
    ]
