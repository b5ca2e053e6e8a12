"""Sampling a machine each second: times, collectors that run, and the samples kept."""

import pytest

from agent.eval.sampler import CLOCK, Sampler, ticks
from agent.rules.promql.expression import parse
from agent.scrape.runner import CollectorRunner
from collectors.interface.sample import CollectorError


class Clock:
    def __init__(self, *works):
        self.now = 12_345
        self.works = iter(works)

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += round(1000 * seconds)


def test_ticks_are_seconds_apart_and_missed_ones_are_skipped():
    clock, seen = Clock(), []
    for now, took in zip(ticks(clock, clock.sleep), (3, 999, 0, 1000, 2500, 10), strict=False):
        seen.append(now)
        assert 0 <= clock.now - now < 1000
        clock.now += took
    assert [now - seen[0] for now in seen] == [0, 1000, 2000, 3000, 4000, 7000]


@pytest.fixture
def sampled(source, family):
    """A sampler over fake collectors, with their results and call counts."""
    made = []

    def make(text, **collectors):
        collector_runner = CollectorRunner(collectors)
        made.append(collector_runner)
        return Sampler(parse(text), collector_runner)

    yield make
    for collector_runner in made:
        collector_runner.close()


def test_range_excludes_the_sample_at_its_beginning(sampled, source, family):
    loadavg = source([family("node_load1", 1.0)])
    expression = "count_over_time(node_load1[3s])"
    sampler = sampled(expression, loadavg=loadavg)
    found = [parse(expression).evaluate(sampler.take(n * 1000))[0][1] for n in range(1, 7)]
    assert found == [1, 2, 3, 3, 3, 3]


def test_only_collectors_of_the_expression_run(sampled, source, family):
    loadavg, meminfo = source([family("node_load1", 1.0)]), source()
    sampler = sampled("node_load1 > 0", loadavg=loadavg, meminfo=meminfo)
    sampler.take(1000)
    assert (loadavg.runs, meminfo.runs) == (1, 0)


@pytest.mark.parametrize(
    "text", ['{__name__=~"node_.*"}', "node_scrape_collector_success", 'count({__name__!=""})']
)
def test_all_collectors_run_if_any_may_match(sampled, source, text):
    loadavg, meminfo = source(), source()
    sampled(text, loadavg=loadavg, meminfo=meminfo).take(1000)
    assert (loadavg.runs, meminfo.runs) == (1, 1)


def test_failed_collectors_are_known(sampled, source):
    sampler = sampled("node_load1", loadavg=source(error=CollectorError("broken")))
    sampler.take(1000)
    assert sampler.failed == {"loadavg"}


def test_moment_has_unix_time_too(sampled, source, family):
    sampler = sampled("node_load1", loadavg=source([family("node_load1", 1.0)]))
    before = CLOCK.boot() + CLOCK.epoch()
    moment = sampler.take(CLOCK.boot())
    assert before - 60_000 < moment.time + moment.epoch < before + 3_600_000
