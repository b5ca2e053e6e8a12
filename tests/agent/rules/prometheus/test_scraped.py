"""Series that vanish and return are stale at the same times in the agent and in Prometheus.

The test does not depend on when Prometheus scrapes: it queries the scrape times afterwards and replays them in our storages.
"""

import contextlib
import http.server
import itertools
import random
import threading
import time

import pytest

from agent.rules.promql import labels
from agent.rules.promql.expression import parse
from agent.rules.promql.values import Moment
from agent.rules.storage.exposition import MemoryStorage
from agent.rules.storage.head import Head
from tests.patience import PATIENCE
from tests.prometheus import OPEN

STEP = 15_000
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


def document(number):
    """The n-th scraped document; None is a failed scrape."""
    chance = random.Random(number)
    parts = {part: float(chance.randint(0, 5)) for part in "abc" if chance.random() < 0.6}
    return None if number % 9 == 4 else {"document": {"": float(number)}, "flicker": parts}


def text(document):
    return "".join(
        f'{name}{{part="{part}"}} {value}\n'
        for name, parts in document.items()
        for part, value in parts.items()
    )


class Script:
    """A server that responds with the documents in order."""

    def __init__(self):
        self._numbers = itertools.count()
        self._turn = threading.Lock()

    def next(self):
        with self._turn:
            return document(next(self._numbers))

    @contextlib.contextmanager
    def serving(self):
        script = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answer = script.next()
                self.send_response(500 if answer is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                with contextlib.suppress(ConnectionError):  # a scrape that took too long
                    self.end_headers()
                    self.wfile.write(text(answer or {}).encode())

            def log_message(self, *args):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.address = f"127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            yield self
            server.shutdown()
            thread.join()


@pytest.fixture
def script():
    with Script().serving() as script:
        yield script


@pytest.fixture
def prometheus(script, start_prometheus, tmp_path):
    """A separate Prometheus: no sample may be older than the range that the test reads back."""
    often = {"scrape_interval": "100ms", "scrape_timeout": "100ms"}
    job = {"job_name": "script", "static_configs": [{"targets": [script.address]}], **often}
    config = {"global": {"evaluation_interval": f"{STEP}ms"}, "scrape_configs": [job]}
    with start_prometheus(tmp_path, config) as connected:
        yield connected


def scraped(prometheus):
    """The times and documents of its scrapes, once there are enough."""
    deadline = time.monotonic() + PATIENCE
    while prometheus.ask("sum(count_over_time(document[1h])) > 20", now()) == {}:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    end = now()
    numbers = dict(prometheus.samples("document[1h]", end))
    for at, up in prometheus.samples("up[1h]", end)[:TICKS]:
        yield at, document(int(numbers[at])) if up else {}


def now():
    return time.time_ns() // 1_000_000


def test_vanishing_series_are_stale_at_the_same_times_as_in_prometheus(
    prometheus, script, both, release
):
    closed = release < OPEN
    times = list(scraped(prometheus))
    expressions = [parse(one) for one in EXPRESSIONS]
    listed, history = MemoryStorage(), Head(need for one in expressions for need in one.needs)
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
        moments = [
            Moment(storage, at + 1, step=STEP, closed=closed) for storage in (listed, history)
        ]
        for expression in EXPRESSIONS:
            if closed and expression.startswith(("rate", "increase")):
                continue  # extrapolated to below zero
            assert list(both.differences(expression, moments)) == []


def exported(document, **target):
    for name, parts in document.items():
        for part, value in parts.items():
            yield labels.make([(labels.NAME, name), ("part", part), *target.items()]), value
