"""A group's head returns what Prometheus would within its range, in bounded memory."""

import gc
import math
import random
import re
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.rules.promql.labels import NAME, Labels, make, of_series
from agent.rules.promql.plan import Need
from agent.rules.promql.syntax.matchers import Matcher, Operator, Selector
from agent.rules.promql.values import LOOKBACK, Series, Window
from agent.rules.storage.exposition import MemoryStorage
from agent.rules.storage.head import Head
from agent.rules.storage.store import FullError
from collectors.interface.sample import Sample
from tests.examples import examples

MINUTE = 60_000


ALL = Selector("m")


def history_of(*reaches: int, limit: float = math.inf) -> Head:
    return Head([Need(ALL, reach) for reach in reaches or (10 * MINUTE,)], limit=limit)


def labels_of(**pairs: str) -> Labels:
    return make([(NAME, "m"), *pairs.items()])


def sample(value: float, **pairs: str) -> Sample:
    return Sample("m", tuple(pairs.items()), value)


def tick(history: Head, time: int, *samples: Sample) -> None:
    history.begin(time)
    history.add_family(samples)
    history.settle()
    history.end()


def only(history: Head, selector: Selector = ALL) -> Series:
    (series,) = history.select(selector)
    return series


def present(history: Head, time: int) -> dict[Labels, float]:
    found = ((s.labels, s.at(time, time - LOOKBACK)) for s in history.select(ALL))
    return {labels: seen[1] for labels, seen in found if seen}


def values(history: Head, start: int, end: int) -> list[float]:
    window = only(history).window(start, end)
    return window.values() if window else []


def values_of(history: Head, labels: Labels, end: int) -> list[float]:
    windows = [s.window(0, end) for s in history.select(ALL) if s.labels == labels]
    return [value for window in windows if window for value in window.values()]


def test_value_is_known_for_the_look_back() -> None:
    history = history_of()
    tick(history, 1_000, sample(1.0))
    assert only(history).at(1_000, 1_000 - LOOKBACK) == (1_000, 1.0)
    assert only(history).at(1_000 + LOOKBACK - 1, 999) == (1_000, 1.0)
    assert only(history).at(1_000 + LOOKBACK, 1_000) is None
    assert only(history).at(999, 999 - LOOKBACK) is None


def test_series_absent_from_a_read_is_stale_from_that_tick() -> None:
    history = history_of()
    tick(history, 1_000, sample(1.0))
    tick(history, 2_000)
    assert present(history, 1_999) == {labels_of(): 1.0}
    assert present(history, 2_000) == {}
    assert values(history, 0, 2_000) == [1.0]


def test_vanished_series_is_stale_before_the_first_rule_runs() -> None:
    history = history_of()
    tick(history, 1_000, sample(1.0))
    history.begin(2_000)
    history.settle()
    assert present(history, 2_000) == {}


def test_pause_without_ticks_is_bridged() -> None:
    history = history_of()
    tick(history, 1_000, sample(1.0))
    tick(history, 201_000, sample(2.0))
    assert present(history, 200_999) == {labels_of(): 1.0}
    assert values(history, 0, 201_000) == [1.0, 2.0]


def test_later_rule_sees_an_earlier_result_of_the_same_tick() -> None:
    history = history_of()
    for time in (1_000, 2_000):
        history.begin(time)
        history.settle()
        history.record("one", [(labels_of(r="1"), float(time))])
        assert present(history, time)[labels_of(r="1")] == time
        history.record("two", [(labels_of(r="2"), 0.0)])
        history.end()


def test_earlier_rule_sees_a_later_result_of_the_previous_tick() -> None:
    history = history_of()
    for time in (1_000, 2_000):
        history.begin(time)
        history.settle()
        assert present(history, time) == ({} if time == 1_000 else {labels_of(r="2"): 1_000.0})
        history.record("two", [(labels_of(r="2"), float(time))])
        history.end()


def test_vanished_result_is_stale_for_the_following_rules() -> None:
    history = history_of()
    for vector in ([(labels_of(r="1"), 1.0)], []):
        history.begin(1_000 if vector else 2_000)
        history.settle()
        history.record("one", vector)
        assert present(history, 3_000) == dict(vector)
        history.end()


def test_two_rules_may_record_series_of_one_metric() -> None:
    history = history_of()
    for time in (1_000, 2_000):
        history.begin(time)
        history.settle()
        history.record("one", [(labels_of(r="1"), 1.0)])
        history.record("two", [(labels_of(r="2"), 2.0)])
        history.end()
    assert present(history, 2_000) == {labels_of(r="1"): 1.0, labels_of(r="2"): 2.0}


def test_result_may_move_from_one_rule_to_a_later_one() -> None:
    history = history_of()
    for time in (1_000, 2_000, 3_000):
        history.begin(time)
        history.settle()
        history.record("one", [(labels_of(), 1.0)] if time == 1_000 else [])
        history.record("two", [(labels_of(), 2.0)] if time > 1_000 else [])
        assert len(present(history, time)) == 1
        history.end()
    assert values(history, 0, 3_000) == [1.0, 2.0, 2.0]


def test_range_ends_with_the_previous_tick_for_a_rule_before_its_input() -> None:
    history = history_of()
    for time in (1_000, 2_000):
        history.begin(time)
        history.settle()
        assert values_of(history, labels_of(), time) == ([] if time == 1_000 else [1.0])
        history.record("one", [(labels_of(), 1.0)])
        assert len(values_of(history, labels_of(), time)) == time / 1_000
        history.end()


def test_results_of_a_failed_rule_count_for_the_look_back() -> None:
    history = history_of()
    history.begin(0)
    history.settle()
    history.record("one", [(labels_of(), 1.0)])
    history.end()
    for time in range(1_000, LOOKBACK + 2_000, 1_000):
        history.begin(time)
        history.settle()
        history.hold("one")
        history.end()
        assert present(history, time) == ({labels_of(): 1.0} if time < LOOKBACK else {})
    assert values(history, 0, LOOKBACK) == [1.0]


def test_results_of_a_removed_rule_are_stale() -> None:
    history = history_of()
    history.begin(1_000)
    history.settle()
    history.record("one", [(labels_of(), 1.0)])
    history.end()
    tick(history, 2_000)
    assert present(history, 2_000) == {}


def test_aborted_tick_records_nothing() -> None:
    history = history_of()
    tick(history, 1_000, sample(1.0))
    history.begin(2_000)
    tick(history, 3_000, sample(1.0))
    assert present(history, 2_500) == {labels_of(): 1.0}
    window = only(history).window(0, 3_000)
    assert window is not None
    assert list(window.times) == [1_000, 3_000]


def test_first_of_two_equal_series_counts() -> None:
    history = history_of()
    for time, first in ((1_000, 1.0), (2_000, 1.0), (3_000, 5.0)):
        tick(history, time, sample(first), sample(2.0))
    assert values(history, 0, 3_000) == [1.0, 1.0, 5.0]


def test_tick_that_is_not_later_is_rejected() -> None:
    history = history_of()
    tick(history, 1_000)
    with pytest.raises(ValueError, match="1000 ms"):
        history.begin(1_000)


def test_label_order_does_not_matter() -> None:
    history = history_of()
    tick(history, 1_000, sample(1.0, a="1", b="2"))
    tick(history, 2_000, sample(2.0, b="2", a="1", c=""))
    assert only(history).labels == labels_of(a="1", b="2")
    assert values(history, 0, 2_000) == [1.0, 2.0]


def test_only_selected_series_are_kept() -> None:
    idle = Selector("m", (Matcher("mode", Operator.EQUAL, "idle"),))
    history = Head([Need(idle, MINUTE)])
    assert history.needs("m")
    assert not history.needs("other")
    tick(history, 0, sample(1.0, mode="idle"), sample(1.0, mode="user"), Sample("other", (), 1.0))
    history.add(of_series("other", ()), 1.0)
    assert history.series == 1
    assert only(history, idle).labels == labels_of(mode="idle")


def test_selector_without_a_plain_name_matches_every_metric() -> None:
    named = Selector("", (Matcher(NAME, Operator.MATCHES, "m|n", re.compile("m|n")),))
    history = Head([Need(named, MINUTE)])
    tick(history, 0, sample(1.0), Sample("n", (), 2.0), Sample("o", (), 3.0))
    assert {dict(s.labels)[NAME] for s in history.select(named)} == {"m", "n"}
    tick(history, 1, sample(1.0), Sample("n", (("a", "b"),), 2.0))
    assert len(history.select(named)) == 3


def test_samples_of_one_family_may_have_several_names() -> None:
    history = Head([Need(Selector("h_sum"), 0), Need(Selector("h_bucket"), 0)])
    family = [
        Sample("h_bucket", (("le", "1"),), 1.0),
        Sample("h_sum", (), 2.0),
        Sample("h_count", (), 3.0),
    ]
    tick(history, 0, *family)
    assert history.series == 2


def test_longest_range_of_a_series_counts() -> None:
    disk = Selector("m", (Matcher("d", Operator.EQUAL, "a"),))
    history = Head([Need(ALL, MINUTE), Need(disk, 60 * MINUTE)])
    for time in range(0, 120 * MINUTE, MINUTE):
        tick(history, time, sample(float(time), d="a"), sample(float(time), d="b"))
    (long,) = history.select(disk)
    window = long.window(time - 60 * MINUTE, time)
    assert window is not None
    assert len(window.times) == 61
    assert history.samples < 61 + 60


def test_nan_equals_nan_within_a_run() -> None:
    history = history_of()
    for time in range(3):
        tick(history, time, sample(math.nan))
    window = only(history).window(0, 2)
    assert window is not None
    assert (len(window.levels), list(window.repeats)) == (1, [3])


Step = tuple[int, tuple[float | None, ...], float | str | None, bool, bool]
NUMBERS = st.sampled_from([0.0, 1.0, 2.0, math.nan, math.inf])
STEPS = st.tuples(
    st.sampled_from([1_000, 5_000, 5_001, 60_000, LOOKBACK]),
    st.tuples(*[st.none() | NUMBERS] * 3),
    st.sampled_from(["held", "silent"]) | st.none() | NUMBERS,
    st.sampled_from([False] * 9 + [True]),
    st.sampled_from([False] * 9 + [True]),
)


class Reference:
    """All samples of each tick, in a list."""

    def __init__(self) -> None:
        self.listed = MemoryStorage()
        self.live: set[Labels] = set()

    def say(self, time: int, labels: Labels, value: float | None) -> None:
        if value is not None:
            self.live.add(labels)
        elif labels in self.live:
            self.live.remove(labels)
        else:
            return
        self.listed.add(labels, time, value)


RULE = labels_of(rule="yes")


def play(steps: Iterable[Step], reach: int, reference: Reference) -> tuple[Head, list[int]]:
    now, ticks = 0, []
    history = history_of(reach)
    for wait, found, recorded, broken, restarted in steps:
        if restarted:
            history = successor(history, reach)
        now += wait
        ticks.append(now)
        history.begin(now)
        for index, value in enumerate(found):
            pairs = (("i", str(index)),)
            if value is not None:
                history.add_family([Sample("m", pairs, value)])
            if value is not None or not broken:
                reference.say(now, of_series("m", pairs), value)
        if broken:
            continue
        history.settle()
        if recorded == "held":
            history.hold("rule")
        else:
            vector = [(RULE, recorded)] if isinstance(recorded, float) else []
            if recorded != "silent":
                history.record("rule", vector)
            reference.say(now, RULE, vector[0][1] if vector else None)
        history.end()
    return history, ticks


def successor(history: Head, *reaches: int) -> Head:
    snapshot = history.snapshot()
    snapshot.check()
    found = history_of(*reaches)
    found.restore(snapshot)
    return found


def same(one: object, other: object) -> bool:
    return repr(one) == repr(other)  # NaN equals NaN, and 0.0 is never -0.0 here


def compare(steps: Iterable[Step], reach: int, *, asked_at: int) -> None:
    """Query both for everything at these times within the range."""
    reference = Reference()
    history, ticks = play(steps, reach, reference)
    now = ticks[-1]
    times = sorted({t + d for t in ticks for d in (-1, 0, 1) if now - reach <= t + d <= now})
    times = times[:: 1 + len(times) // asked_at]
    kept = {series.labels: series for series in history.select(ALL)}
    for asked in reference.listed.select(ALL):
        series = kept.get(asked.labels)
        for time in (*times, now):
            after = max(time - LOOKBACK, now - reach - 1) if reach else time - LOOKBACK
            assert same(series and series.at(time, after), asked.at(time, after)), time
            for end in (*times[::2], now):
                window = None if series is None else series.window(time, end)
                assert plain(window) == plain(asked.window(time, end)), (time, end)


def plain(window: Window | None) -> str:
    if window is None:
        return "none"
    return repr((list(window.times), list(window.levels), list(window.repeats), window.values()))


REACHES = [0, 30_000, MINUTE, 20 * MINUTE]
PLAYS = st.integers(1, 80).flatmap(lambda n: st.lists(STEPS, min_size=n, max_size=n))


@given(steps=PLAYS, reach=st.sampled_from(REACHES))
@settings(max_examples=examples(25), deadline=None)
def test_head_agrees_with_a_list_of_all_samples(steps: list[Step], reach: int) -> None:
    compare(steps, reach, asked_at=20)


def test_head_agrees_with_a_list_of_all_samples_after_a_long_time(soak: bool) -> None:
    for seed in range(200 if soak else 4):
        rng = random.Random(seed)
        numbers = [0.0, 1.0, 2.0, math.nan, math.inf]
        found: list[list[float | None]] = [[None], [*numbers], [1.0]]
        recorded: list[float | str] = [*numbers, "held", "silent"]
        steps = [
            (
                rng.choice([1_000, 5_000, 5_001] * 20 + [60_000, LOOKBACK]),
                tuple(rng.choice(rng.choice(found)) for _ in range(3)),
                rng.choice(recorded),
                rng.random() < 0.05,
                rng.random() < 0.02,
            )
            for _ in range(700)
        ]
        compare(steps, REACHES[seed % 4], asked_at=40)


def test_successor_takes_over_what_it_needs() -> None:
    history = history_of()
    for time in (1_000, 2_000):
        tick(history, time, sample(1.0, d="a"), sample(2.0, d="b"))
    disk = Selector("m", (Matcher("d", Operator.EQUAL, "a"),))
    found = Head([Need(disk, MINUTE)])
    found.restore(history.snapshot())
    assert present(found, 2_000) == {labels_of(d="a"): 1.0}
    tick(found, 3_000)
    assert present(found, 3_000) == {}


def test_started_head_takes_nothing_over() -> None:
    history = history_of()
    tick(history, 1_000)
    with pytest.raises(ValueError, match="has begun"):
        history.restore(history.snapshot())


def test_results_before_a_restart_are_stale_once_their_rule_yields_nothing() -> None:
    history = history_of()
    history.begin(1_000)
    history.record("one", [(labels_of(), 1.0)])
    history.end()
    found = successor(history)
    found.begin(2_000)
    found.settle()
    assert present(found, 2_000) == {labels_of(): 1.0}
    found.record("one", [])
    assert present(found, 2_000) == {}


def test_series_that_vanished_for_good_is_forgotten() -> None:
    history = history_of(MINUTE)
    for second in range(0, 7_200, 5):
        tick(history, second * 1_000, sample(1.0), sample(1.0, pod=str(second // 60)))
    assert history.series < 10
    assert len(history.select(ALL)) == history.series


def test_flapping_series_costs_no_more_than_a_steady_one() -> None:
    history = history_of(MINUTE)
    sizes = []
    for second in range(0, 7_200, 5):
        tick(history, second * 1_000, *([sample(1.0)] if second % 10 else []))
        sizes.append(history.bytes)
    assert max(sizes[700:]) <= max(sizes[:700])


def test_constant_costs_little_for_a_day() -> None:
    history = history_of(24 * 60 * MINUTE)
    for time in range(0, 24 * 60 * MINUTE, MINUTE):
        tick(history, time, *(sample(1.0, d=str(d)) for d in range(20)))
    timeline = 9 * 1_440
    assert (history.bytes - timeline) / 20 < 1_000
    assert history.samples == 20 * 1_440


@pytest.mark.parametrize("changing", [0, 1])
@pytest.mark.parametrize(("reach", "ticks"), [(0, 50), (MINUTE, 400), (60 * MINUTE, 1_000)])
def test_reported_size_is_accurate_within_a_quarter(changing: int, reach: int, ticks: int) -> None:
    of_series.cache_clear()
    gc.collect()
    tracemalloc.start()
    try:
        history = history_of(reach)
        for number in range(ticks):
            tick(
                history,
                5_000 * number,
                *(sample(float(number * changing), d=str(d)) for d in range(50)),
            )
        of_series.cache_clear()
        gc.collect()
        # Allocations of other threads, such as a server left by another test, do not count.
        ours = [tracemalloc.Filter(True, "*/agent/rules/*")]
        traces = tracemalloc.take_snapshot().filter_traces(ours).traces
        real = sum(trace.size for trace in traces)
    finally:
        tracemalloc.stop()
    assert real / 1.25 < history.bytes < real * 1.25


def test_short_lived_label_sets_do_not_accumulate() -> None:
    history = Head([Need(Selector("m", (Matcher("d", Operator.EQUAL, "a"),)), MINUTE)])
    sizes = []
    for number in range(2_000):
        tick(history, 5_000 * number, sample(1.0, d="a"), sample(1.0, pid=str(number)))
        sizes.append(history.bytes)
    assert max(sizes[1_000:]) < 1.01 * max(sizes[:1_000])


def test_series_over_the_limit_is_rejected() -> None:
    history = history_of(MINUTE, limit=100_000)
    history.begin(0)
    with pytest.raises(FullError, match="100000 bytes"):
        history.add_family(sample(1.0, d=str(d)) for d in range(1_000))
    assert history.bytes <= 100_000


def test_tick_over_the_limit_is_rejected() -> None:
    history = history_of(24 * 60 * MINUTE, limit=100_000)
    number = 0
    while history.bytes <= 100_000:
        number += 1
        tick(history, 1_000 * number, sample(float(number)))
    with pytest.raises(FullError):
        history.begin(1_000 * number + 1_000)
    assert 90_000 < history.bytes < 110_000


def test_memory_is_constant_over_days() -> None:
    history = history_of(10 * MINUTE, limit=50_000)
    for number in range(3 * 24 * 60 * 4):
        tick(history, 15_000 * number, sample(float(number), d="a"), sample(0.0, d=str(number % 7)))
    assert history.samples < 1_000


def test_change_from_0_to_minus_0_keeps_the_sign():
    history = Head([Need(Selector("x"), 60_000)])
    for time, value in ((1_000, 0.0), (2_000, -0.0), (3_000, -0.0)):
        history.begin(time)
        history.add_family([Sample("x", (), value)])
        history.end()
    (series,) = history.select(Selector("x"))
    window = series.window(0, 3_000)
    assert [math.copysign(1, value) for value in window.values()] == [1, -1, -1]
