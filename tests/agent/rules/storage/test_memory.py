"""The storage of recorded samples: which are visible at which time."""

import math

import pytest

from agent.rules.promql import labels
from agent.rules.promql.syntax.matchers import Matcher, Operator, Selector
from agent.rules.storage.memory import MemoryStorage

UP = labels.of_series("up", (("job", "a"),))


def of(*marks):
    (series,) = MemoryStorage({UP: marks}).select(Selector("up"))
    return series


@pytest.mark.parametrize(
    ("time", "after", "found"),
    [
        (999, 0, None),
        (1000, 0, (1000, 1.0)),
        (1000, 999, (1000, 1.0)),
        (1000, 1000, None),
        (1999, 0, (1000, 1.0)),
        (2000, 0, None),
        (2999, 0, None),
        (3000, 0, (3000, 3.0)),
        (9000, 0, (3000, 3.0)),
        (9000, 3000, None),
    ],
)
def test_latest_sample_counts_unless_old_or_stale(time, after, found):
    assert of((1000, 1.0), (2000, None), (3000, 3.0)).at(time, after) == found


def test_window_includes_both_ends_and_no_stale_markers():
    series = of((1000, 1.0), (2000, 1.0), (3000, None), (4000, 1.0), (5000, 2.0))
    whole = series.window(1000, 5000)
    assert (whole.times, whole.levels, whole.repeats) == (
        [1000, 2000, 4000, 5000],
        [1.0, 2.0],
        [3, 1],
    )
    assert whole.values() == [1.0, 1.0, 1.0, 2.0]
    assert series.window(1001, 4999).times == [2000, 4000]
    assert series.window(2001, 3999) is None
    assert series.window(5001, 9000) is None


def test_nan_is_one_level():
    window = of((1, math.nan), (2, math.nan), (3, 1.0)).window(0, 3)
    assert window.repeats == [2, 1]
    assert math.isnan(window.levels[0])


def test_series_are_found_by_name_or_any_label():
    down = labels.of_series("down", (("job", "a"),))
    nameless = labels.make([("job", "b")])
    listed = MemoryStorage({series: [(1, 1.0)] for series in (UP, down, nameless)})

    def found(*selector):
        return [series.labels for series in listed.select(Selector(*selector))]

    assert found("up") == [UP]
    assert found("nothing") == []
    assert found("", (Matcher("job", Operator.EQUAL, "a"),)) == [UP, down]
    assert found("", (Matcher("job", Operator.NOT_EQUAL, "a"),)) == [nameless]
    assert found("down", (Matcher("job", Operator.NOT_EQUAL, "a"),)) == []


@pytest.mark.parametrize("time", [5, 4])
def test_series_advances_in_time(time):
    with pytest.raises(ValueError, match="does not come after"):
        of((5, 1.0), (time, 2.0))
