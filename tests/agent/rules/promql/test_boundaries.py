"""Samples and steps exactly as old as a range or the lookback is long: outside as in Prometheus 3, inside if ranges are closed.

The expected values are Prometheus' own, of release 3.13 and of 2.42.
"""

import pytest

from agent.rules.promql import labels
from agent.rules.promql.expression import parse
from agent.rules.promql.values import LOOKBACK, Moment
from agent.rules.storage.exposition import MemoryStorage

MINUTE = 60_000
NOW = 60 * MINUTE
EVERY_MINUTE = labels.make([("__name__", "climbing")])
OLD = labels.make([("__name__", "old")])
STORAGE = MemoryStorage(
    {
        EVERY_MINUTE: [(n * MINUTE, float(n * n)) for n in range(61)],
        OLD: [(NOW - LOOKBACK, 1.0)],
    }
)


def ask(text, time=NOW, *, closed=False):
    value = parse(text).evaluate(Moment(STORAGE, time, step=MINUTE, closed=closed))
    return [number for _, number in value]


@pytest.mark.parametrize(
    ("text", "opened", "closed"),
    [
        ("old", [], [1]),
        ("old offset -1ms", [], []),
        ("timestamp(old)", [], [55 * 60]),
        ("absent(old)", [1], []),
        ("count_over_time(climbing[3m])", [3], [4]),
        ("count_over_time(climbing[3m] offset 1m)", [3], [4]),
        ("count_over_time(climbing[3m] offset 30s)", [3], [3]),
        ("count_over_time(climbing[179999ms])", [3], [3]),
        ("count_over_time(climbing[180001ms])", [4], [4]),
        ("sum_over_time(climbing[2m])", [3600 + 3481], [3600 + 3481 + 3364]),
        ("max_over_time(climbing[1m] offset 59m)", [1], [1]),
        ("min_over_time(climbing[1m] offset 59m)", [1], [0]),
        ("rate(climbing[1m])", [], [119 / 60]),
        ("increase(climbing[2m])", [119 * 2], [119 + 117]),
        ("delta(climbing[1m])", [], [119]),
        ("irate(climbing[1m])", [], [119 / 60]),
        ("idelta(climbing[2m])", [119], [119]),
        ("deriv(climbing[1m])", [], [119 / 60]),
        ("changes(climbing[2m])", [1], [2]),
        ("absent_over_time(old[5m])", [1], []),
        ("last_over_time(old[5m])", [], [1]),
        ("count_over_time(climbing[3m:1m])", [3], [4]),
        ("count_over_time(climbing[3m:])", [3], [4]),
        ("count_over_time(climbing[160s:40s])", [4], [5]),
        ("count_over_time(climbing[3m:50s])", [4], [4]),
        ("count_over_time(climbing[1m:1m])", [1], [2]),
        ("rate(climbing[1m:1m])", [], [119 / 60]),
        ("sum_over_time(count_over_time(climbing[1m])[2m:1m])", [2], [6]),
        ("count_over_time(old[7m:1m])", [5], [6]),
    ],
)
def test_sample_at_the_beginning_of_a_range_counts_only_if_it_is_closed(text, opened, closed):
    assert ask(text) == pytest.approx(opened)
    assert ask(text, closed=True) == pytest.approx(closed)


@pytest.mark.parametrize("closed", [False, True])
def test_sample_at_the_end_of_a_range_counts(closed):
    assert ask("count_over_time(climbing[1ms])", closed=closed) == [1]
    assert ask("count_over_time(climbing[1ms:1ms])", closed=closed) == [1 + closed]
