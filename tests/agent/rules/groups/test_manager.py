"""Memory of all groups: the group that needs the most is stopped, others continue."""

import itertools
import sys
from array import array

from agent.rules.groups.file import Group, Rule
from agent.rules.groups.manager import GroupManager
from agent.rules.groups.members import Part
from agent.rules.groups.tick import TickInputs, by_metric
from agent.rules.promql.budget import Budget
from agent.rules.promql.expression import parse
from agent.rules.storage.snapshot import SeriesSnapshot, Snapshot
from collectors.interface.sample import Family, Sample

SECOND = 1_000


def manager(*groups, max_memory):
    found = GroupManager(
        interval=SECOND,
        max_memory=max_memory,
        sources=lambda _: frozenset(),
        quick_interval=lambda *_: SECOND,
    )
    found.adopt([Group(name, (Rule(name, parse(text)),)) for name, text in groups], 0, {})
    return found


def inputs(second, series):
    samples = tuple(Sample("m", (("i", str(i)),), float(second)) for i in range(series))
    return TickInputs(
        second * SECOND, 0, by_metric([Family("m", "gauge", "", samples)]), frozenset()
    )


def run(groups, seconds, series):
    for second in seconds:
        for part in groups.take(second * SECOND):
            groups.evaluate(part, inputs(second, series))
        groups.count(second * SECOND)
    return groups.published(seconds[-1] * SECOND)


def test_group_whose_samples_grow_beyond_the_limit_is_stopped_and_named():
    short, long = 'sum_over_time(m{i="0"}[10s])', "sum(max_over_time(m[10m]))"
    groups = manager(("short", short), ("long", long), max_memory=400_000)
    seen = run(groups, range(1, 20), 200)
    assert seen.results.keys() == {"short", "long"}
    seen = run(groups, range(20, 300), 200)
    assert [(error.group, error.rule, error.reason) for error in seen.errors] == [
        ("long", "long", "memory")
    ]
    assert "its own" in seen.errors[0].text
    assert seen.results["short"] == [((("__name__", "short"), ("i", "0")), sum(range(290, 300)))]
    assert sum(account.bytes for account in groups.accounts()) < 100_000


def test_groups_with_equal_needs_are_accounted_once():
    one = manager(("a", "sum(rate(m[1m]))"), max_memory=1 << 30)
    ten = manager(*((f"g{i}", "sum(rate(m[1m]))") for i in range(10)), max_memory=1 << 30)
    for groups in (one, ten):
        run(groups, range(1, 10), 500)
    assert sum(account.series for account in ten.accounts()) == 500
    (alone,) = one.accounts()
    results = alone.bytes - 500 * 600
    assert sum(account.bytes for account in ten.accounts()) < alone.bytes + 10 * results


def test_rule_that_exceeds_a_limit_is_evaluated_ever_less_often():
    groups = manager(("big", "sum by (i) (m)"), max_memory=1 << 30)
    (part,) = groups.take(SECOND)
    attempts = []

    class Counting(Budget):
        def start_rule(self, free):
            attempts.append(second // 60)
            super().start_rule(free if second > 4 * 3600 else 0)

    groups._budget = Counting()
    for second in range(60, 4 * 3600, 60):
        groups.evaluate(part, inputs(second, 10))
    assert attempts[:6] == [1, 2, 4, 8, 16, 32]
    assert {later - earlier for earlier, later in itertools.pairwise(attempts[5:])} == {16}
    assert groups.published(second * SECOND).errors[0].reason == "memory"
    for second in range(4 * 3600 + 60, 5 * 3600, 60):
        found = groups.evaluate(part, inputs(second, 10))
    assert len(found.results["big"]) == 10
    assert attempts[-1] == second // 60


def test_subscription_keeps_the_samples_of_its_group():
    groups = manager(("a", "count_over_time(m[30s])"), max_memory=1 << 30)
    groups.adopt([Group("a", (Rule("a", parse("count_over_time(m[30s])")),), 5 * SECOND)], 0, {})
    run(groups, range(5, 31, 5), 1)
    groups.accelerate({"a"}, 30 * SECOND)
    assert groups.take(31 * SECOND) == [Part("a", quick=True)]
    seen = groups.evaluate(Part("a", quick=True), inputs(31, 1))
    assert seen.results["a"][0][1] == 7
    groups.accelerate(frozenset(), 31 * SECOND)
    run(groups, range(35, 41, 5), 1)
    seen = groups.published(40 * SECOND)
    assert seen.results["a"][0][1] == 6


def test_samples_saved_by_an_earlier_version_are_read():
    """It saved collected samples and results of a group together."""
    ticks = array("I", range(10))

    def saved(name, source, values):
        labels = (("__name__", name), ("i", "0"))
        return SeriesSnapshot(labels, source, ticks, array("d", values), array("I"))

    sums = list(itertools.accumulate(range(1, 11)))
    series = (saved("m", "", range(1, 11)), saved("a:sum", "a:sum 1", sums))
    snapshot = Snapshot(0, array("q", range(SECOND, 11 * SECOND, SECOND)), series)
    rules = (
        Rule("a:sum", parse("sum_over_time(m[1h])")),
        Rule("b", parse("count_over_time(a:sum[1h])")),
    )
    groups = manager(max_memory=1 << 30)
    groups.adopt([Group("a", rules)], 10 * SECOND, {"a": snapshot})
    results = run(groups, [11], 1).results
    assert [value for _, value in results["a:sum"]] == [sum(range(1, 12))]
    assert [value for _, value in results["b"]] == [11]


def costly(*seconds):
    """Groups that take these seconds of processor time, then a light one."""
    names = [f"costly{number}" for number in range(len(seconds))]
    groups = manager(*((name, "sum(m)") for name in [*names, "light"]), max_memory=1 << 30)
    parts = groups.take(SECOND)
    for part, cost in zip(parts, [*seconds, 0.001], strict=True):
        groups.evaluate(part, inputs(1, 1))
        groups.took(part, cost, cost)
    return groups


def test_light_groups_precede_costly_ones_which_take_turns():
    groups = costly(0.2, 0.3, 0.4)
    seen = []
    for second in range(2, 8):
        due = groups.ordered(groups.take(second * SECOND), {})
        seen.append([part.group for part in due[:2]])
        for part in due[:2]:  # no time for more
            groups.evaluate(part, inputs(second, 1))
        groups.postpone(due[2:])
        assert groups.next < (second + 1) * SECOND, "at once"
    assert seen == [["light", f"costly{number % 3}"] for number in range(6)]


def test_light_group_precedes_hundreds_of_costly_ones():
    groups = costly(*[0.01] * 200)
    due = groups.ordered(groups.take(2 * SECOND), {})
    assert "light" in [part.group for part in due[:20]]


def test_groups_follow_those_they_read_while_a_step_has_time_for_all():
    groups = costly(0.01, 0.02, 0.03)
    due = groups.take(2 * SECOND)
    assert groups.ordered(due, {}) == due


def test_new_group_over_many_series_follows_light_ones():
    groups = manager(("many", "sum(m)"), ("none", "vector(1)"), max_memory=1 << 30)
    found = inputs(1, 200_000).families
    due = groups.ordered(groups.take(SECOND), found)
    assert [part.group for part in due] == ["none", "many"]


def test_rule_that_exceeded_a_limit_keeps_no_results_of_earlier_ticks():
    groups = manager(max_memory=400_000)
    rules = tuple(Rule(f"copy{i}", parse("m")) for i in range(10))
    groups.adopt([Group("copies", rules)], 0, {})
    seen = run(groups, range(1, 4), 100)
    assert {error.reason for error in seen.errors} == {"memory"}
    vector = seen.results["copy0"]
    del seen
    seen = run(groups, range(4, 8), 100)
    assert {error.reason for error in seen.errors} == {"memory"}
    assert seen.results["copy0"] is not vector
    assert sys.getrefcount(vector) == 2  # the name and the argument
