"""Series that vanish and come back, scraped by Prometheus and kept by us: stale at the same times.

Prometheus scrapes when it likes, so nothing here depends on when: it is asked afterwards at which times it scraped which
document, and our storages are told the same.
"""

import time

from agent.rules import labels
from agent.rules.expressions import parse
from agent.rules.history import History
from agent.rules.listed import Listed
from agent.rules.values import Moment

PATIENCE = 60.0
TICKS = 40
EXPRESSIONS = [
    "flicker",
    "document",
    "sum(flicker)",
    "count by (part) (flicker)",
    'absent(flicker{part="a"})',
    "flicker offset 70ms",
    "timestamp(flicker)",
    "flicker unless flicker offset 200ms",
    "rate(flicker[500ms])",
    "increase(flicker[5m])",
    "changes(flicker[400ms])",
    "count_over_time(flicker[1s])",
    "last_over_time(flicker[150ms])",
    "absent_over_time(flicker[100ms])",
    "max_over_time(flicker[1s:50ms])",
    "count_over_time(sum(flicker)[1s:33ms])",
    "count_over_time(absent(flicker)[1s:50ms])",
]


def scraped(prometheus, documents):
    """When it scraped, and what: its first ticks, once there are enough, which takes it some seconds from its start."""
    deadline = time.monotonic() + PATIENCE
    while prometheus.ask("sum(count_over_time(document[5m])) > 20", now()) == {}:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    end = now()
    numbers = dict(prometheus.samples("document[5m]", end))
    for at, up in prometheus.samples("up[5m]", end)[:TICKS]:
        yield at, documents(int(numbers[at])) if up else {}


def now():
    return time.time_ns() // 1_000_000


def test_what_vanishes_and_comes_back_is_stale_at_the_same_times(
    prometheus, script, documents, both
):
    times = list(scraped(prometheus, documents))
    expressions = [parse(one) for one in EXPRESSIONS]
    listed, history = Listed(), History(need for one in expressions for need in one.needs)
    before = set()
    for at, document in times:
        series = dict(exported(document, job="script", instance=script.address))
        history.begin(at)
        for key, value in series.items():
            listed.add(key, at, value)
            history.add(key, value)
        for key in before - series.keys():
            listed.add(key, at, None)
        history.end()
        before = series.keys()
        moments = [Moment(storage, at + 1, step=15_000) for storage in (listed, history)]
        for expression in EXPRESSIONS:
            assert list(both.differences(expression, moments)) == []


def exported(document, **target):
    for name, parts in document.items():
        for part, value in parts.items():
            yield labels.make([(labels.NAME, name), ("part", part), *target.items()]), value
