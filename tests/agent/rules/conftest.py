"""A synthetic day of samples of every kind."""

import math
import random

import pytest

from agent.rules.clock import Clock
from agent.rules.engine import RuleEngine
from agent.rules.options import RuleOptions
from agent.rules.promql import labels
from agent.rules.promql.labels import NAME
from agent.rules.promql.values import Moment
from agent.rules.state_file import StateSaver
from agent.rules.storage.exposition import MemoryStorage
from agent.scrape.runner import CollectorRunner
from tests.agent.rules.node import LOAD, MEMORY, Node, one

STEP = 15_000
"""The default step of a subquery."""

BEGIN = 1_700_000_000_000
HOUR = BEGIN + 23 * 3_600_000
"""The start of the last hour; only slow series have earlier samples."""
MINUTE = 60_000
TIMES = (
    HOUR + 20_000,
    HOUR + 20 * MINUTE,
    HOUR + 43 * MINUTE + 123,
    HOUR + 60 * MINUTE,
    HOUR + 64 * MINUTE + 30_000,
)
"""Evaluation times: with few samples, on the grid, beside it, at the last samples, when most are stale."""

ODD = (math.nan, math.inf, -math.inf, 0.0, -1.5, math.nan, math.nan, 3.25, math.inf)
# Characters that regular expressions may confuse. Python's (?i)i also matches the Turkish letters, which are omitted.
TEXTS = (
    *"ab1kKsSiI_-.*$^(]{}|\\/'\" \n\r\t\f\v\x07\x1c\x85\xa0\u2028\ufffd",
    *"\u212a\u017féÉßẞς\u03a3\u03c3µμ٣²Ⅷǅǆ😀𐐀𐐨",
    *("ab", "aB", "AB", "aab", "abab", "ba", "a.b", "a b", "a-b", "a_b", "a1", "12", "a{2}", "  "),
    *("a\n", "\na", "a\nb", "e\u0301", "ab٣", "日本", "aéb"),
)


def steady(every, begin=HOUR, end=HOUR + 60 * MINUTE):
    return range(begin, end + 1, every)


class Day:
    """Generates the samples: series by series, deterministic."""

    def __init__(self):
        self.samples = {}
        self._random = random.Random(20_20)

    def add(self, name, times, values, **pairs):
        """Values for times, up to the shorter of the two."""
        key = labels.make([(NAME, name), *pairs.items()])
        assert key not in self.samples, key
        self.samples[key] = [
            (int(time), float(value)) for time, value in zip(times, values, strict=False)
        ]

    def jittered(self, every, by, **bounds):
        return [time + self._random.randint(-by, by) for time in steady(every, **bounds)]

    def without(self, times, start, end):
        """The times except those between two minutes of the hour."""
        return [time for time in times if not start * MINUTE <= time - HOUR < end * MINUTE]

    def counter(self, largest, resets=0.0, begin=0.0, still=0.0):
        """A counter with increments up to this size, resets and pauses."""
        value = begin
        while True:
            yield value
            if self._random.random() < resets:
                value = 0.0
            elif self._random.random() >= still:
                value += round(self._random.uniform(0, largest), 3)

    def wandering(self, least, most):
        while True:
            yield round(self._random.uniform(least, most), 3)

    def fill(self):
        self._counters()
        self._gauges()
        self._odd()
        self._short()
        self._histograms()
        self._sides()
        self._slow()
        return self.samples

    def _counters(self):
        for cpu in range(3):
            for mode, largest in (("user", 9.0), ("system", 2.5), ("idle", 14.0)):
                times = self.jittered(15_000, 2_000)
                resets = 0.02 if cpu == 1 else 0.0
                counter = self.counter(largest, resets, begin=1000.0 * cpu)
                self.add("work_total", times, counter, cpu=str(cpu), mode=mode)
        for link in "abcd":
            counter = self.counter(1e9, 0.004 if link > "b" else 0.0, begin=2e15, still=0.3)
            self.add("fast_total", steady(1_000, HOUR + 38 * MINUTE), counter, link=link)
        self.add("late_total", steady(5_000, HOUR + 50 * MINUTE), self.counter(1.0), job="new")
        gap = self.without(steady(10_000), 12, 19.2)
        self.add("gappy_total", gap, self.counter(4.0, begin=50.0), job="gap")
        self.add("gappy_total", gap[::7], self.counter(40.0, 0.1), job="rare")
        # Near zero the extrapolation stops short.
        self.add("young_total", steady(60_000, HOUR + 15_000), self.counter(3.0), job="young")
        for value in (0.0, 7.0):
            self.add("constant_total", steady(15_000), [value] * 241, at=str(int(value)))
        self.add("reset_always_total", steady(5_000), [3.0, 2.0, 1.0] * 300)

    def _gauges(self):
        for chip in ("cpu", "nvme", "dimm"):
            for sensor in "12":
                times = self.jittered(5_000, 1_999)
                if chip == "nvme":
                    times = self.without(times, 15, 22 if sensor == "1" else 19.5)
                values = self.wandering(-20.0 if chip == "dimm" else 30.0, 90.0)
                self.add("temperature_celsius", times, values, chip=chip, sensor=sensor)
        levels = [0.0] * 70 + [1.0] * 40 + [0.0] * 5 + [1.0] * 126
        self.add("flag", steady(15_000), levels, job="door")
        self.add("flag", steady(15_000), [1.0] * 241, job="lamp")
        self.add("climbing", steady(30_000), (0.25 * i - 7 for i in range(200)), to="up")
        self.add("climbing", steady(30_000), (5 - 1.75 * i for i in range(200)), to="down")
        self.add("waves", steady(7_000), (math.sin(i / 9) * 1e-3 for i in range(600)), of="small")
        self.add("waves", steady(7_000), (math.cos(i / 5) * 1e12 for i in range(600)), of="large")

    def _odd(self):
        for shift, kind in enumerate(("one", "two", "three")):
            values = [ODD[(index + shift * 4) % len(ODD)] for index in range(241)]
            self.add("odd", steady(15_000), values, kind=kind)
        self.add("odd", steady(15_000), [math.nan] * 241, kind="nan")
        self.add("odd", steady(15_000), [math.inf] * 241, kind="inf")
        self.add("odd", steady(15_000), [-math.inf] * 241, kind="minus")
        self.add("odd", steady(15_000), [-0.0] * 241, kind="minus_zero")
        self.add("huge", steady(15_000), [1.7e308, -1.7e308, 1.7e308, 1.6e308] * 60, of="huge")
        self.add("huge", steady(15_000), [2.5e-308, 5e-308, 0.0] * 80, of="tiny")
        self.add("subnormal", steady(15_000), [5e-324, 2e-308, 0.0] * 80)
        self.add("huge", steady(15_000), [1e100, 1.0, -1e100] * 80, of="mixed")

    def _short(self):
        self.add("single", [HOUR + 43 * MINUTE], [4.0], at="middle")
        self.add("single", [HOUR + 60 * MINUTE], [5.0], at="end")
        self.add("single", [HOUR + 59 * MINUTE], [-6.0], at="before")
        self.add("pair", [HOUR + 42 * MINUTE, HOUR + 43 * MINUTE], [1.0, 4.0], at="middle")
        self.add("pair", [HOUR + 59 * MINUTE, HOUR + 60 * MINUTE], [4.0, 1.0], at="end")
        self.add("ended", steady(5_000, end=HOUR + 17 * MINUTE), self.counter(2.0), job="ended")
        self.add("ended", steady(5_000, end=HOUR + 39 * MINUTE), self.counter(2.0), job="later")
        for number, value in enumerate(('say "no"', "back\\slash", "two\nlines", "größe", "a.b")):
            self.add("label_values", steady(60_000), [number] * 61, path=value, n=str(number % 2))
        self.add("label_values", steady(60_000), [9.0] * 61, n="1")
        for text in TEXTS:
            self.add("texts", steady(60_000), [1.0] * 61, text=text)
        for name in ("same_a", "same_b"):
            self.add(name, steady(15_000), self.counter(2.0), job="x")

    def _histograms(self):
        good = (("0.1", 3), ("0.5", 7), ("1", 11), ("2.5", 12), ("+Inf", 14))
        broken = {
            "good": good,
            "no_inf": good[:-1],
            "only_inf": good[-1:],
            "falling": (("0.1", 9), ("0.5", 4), ("1", 11), ("+Inf", 14)),
            "unreadable": (*good, ("much", 20)),
            "twice": (*good, ("1.0", 2), ("1e0", 3)),
            "nan": (("0.1", 3), ("0.5", math.nan), ("1", 11), ("+Inf", 14)),
            "negative": (("-2", 3), ("-1", 7), ("0", 11), ("+Inf", 14)),
            "zero": tuple((le, 0) for le, _ in good),
            "le_nan": (*good, ("NaN", 15)),
            "low": (("-Inf", 2), ("1", 4), ("+Inf", 5)),
            "infinite": (("1", 1), ("2", math.inf), ("+Inf", math.inf)),
        }
        for job, buckets in broken.items():
            for le, slope in buckets:
                counts = (slope * index for index in range(241))
                self.add("seconds_bucket", steady(15_000), counts, job=job, le=le)
            self.add("seconds_sum", steady(15_000), self.counter(3.0), job=job)
        self.add("seconds_bucket", steady(15_000), [1.0] * 241, job="no_le")

    def _sides(self):
        """For vector matching: one to one, one to many, many to many, and elements without a partner."""
        every = steady(30_000)
        for zone in "ab":
            for disk in "xyz":
                self.add("used_bytes", every, self.wandering(0, 900), zone=zone, disk=disk)
                self.add("size_bytes", every, [1000.0] * 121, zone=zone, disk=disk, kind="ssd")
        self.add("used_bytes", every, self.wandering(0, 900), zone="c", disk="x")
        self.add("size_bytes", every, [0.0] * 121, zone="d", disk="x", kind="hdd")
        for zone in "abd":
            self.add("zone_limit", every, [2000.0] * 121, zone=zone, team=f"team-{zone}")
            self.add("zone_info", every, [1.0] * 121, zone=zone, owner=f"owner-{zone}", disk="none")
        for team in ("one", "two"):
            self.add("zone_double", every, [3.0] * 121, zone="a", team=team)
        for index, zone in enumerate("abcdef"):
            self.add("rank", every, [float(index // 2)] * 121, zone=zone)
            self.add(
                "score", every, [float(index * index - 4)] * 121, zone=zone, even=str(index % 2)
            )

    def _slow(self):
        all_day = steady(60_000, BEGIN)
        self.add("errors_total", all_day, [0.0] * 1441, dimm="quiet")
        for dimm, still in (("busy", 0.9), ("worn", 0.99)):
            steps = self.counter(2.0, begin=5.0, still=still)
            self.add("errors_total", all_day, map(math.ceil, steps), dimm=dimm)
        self.add("errors_total", all_day, self.counter(2.0, 0.002, still=0.95), dimm="restarted")
        slow = steady(240_000, BEGIN + 7_000)
        self.add("errors_total", slow, self.counter(5.0, 0.01, still=0.5), dimm="seldom")


@pytest.fixture(scope="session")
def day():
    """The samples by label set, in Prometheus' order of iteration, so that sums agree to the last digit."""
    return dict(sorted(Day().fill().items()))


@pytest.fixture(scope="session")
def listed(day):
    return MemoryStorage(day)


@pytest.fixture(scope="session")
def moments(listed):
    """The evaluation times."""
    return [Moment(listed, time, step=STEP) for time in TIMES]


@pytest.fixture
def node_with(tmp_path, source):
    """A node with options of the engine."""
    made = []

    def make(*, saver: StateSaver | None = None, **options) -> Node:
        text, meminfo, loadavg = source(), source([one(MEMORY, 1)]), source([one(LOAD, 1)])
        collector_runner = CollectorRunner(
            {"textfile": text, "meminfo": meminfo, "loadavg": loadavg}, timeout=1.0
        )
        made.append(collector_runner)
        now = [1_000_000]
        clock = Clock(boot=lambda: now[0], wall=lambda: now[0] + 5_000_000)
        chosen = RuleOptions(files=(str(tmp_path / "*.yaml"),), **options)
        recorder = RuleEngine(collector_runner, chosen, saver=saver, clock=clock)
        return Node(tmp_path, collector_runner, recorder, text, meminfo, loadavg, now)

    yield make
    for collector_runner in made:
        collector_runner.close()


@pytest.fixture
def node(node_with) -> Node:
    return node_with()
