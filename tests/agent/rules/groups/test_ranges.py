"""Ranges that hold fewer than two samples are named."""

import pytest

from agent.rules.groups import ranges
from agent.rules.groups.file import Group, Rule
from agent.rules.promql.expression import parse


def short(text, interval=None, *, closed=False):
    group = Group("g", (Rule("r", parse(text)),), interval)
    return [found.text for found in ranges.short([group], 5_000, closed=closed)]


@pytest.mark.parametrize(
    ("text", "opened", "closed"),
    [
        ("rate(a[3s])", True, True),
        ("rate(a[5s])", True, False),
        ("max_over_time(a[5s])", True, False),
        ("rate(a[5s] offset 5m)", True, False),
        ("rate(a[5001ms])", False, False),
        ("rate(a[10s])", False, False),
        ("rate(a[7s] offset 3s)", True, True),
        ("rate(a[10s] offset 3s)", False, False),
        ("max_over_time(a[1m:1m])", True, True),
        ("max_over_time(a[5s:])", True, True),
        ("max_over_time(a[2m:1m])", False, False),
        ("max_over_time(rate(a[7s])[5m:1m])", True, True),
        ("a", False, False),
        ("a offset 5s", False, False),
    ],
)
def test_range_with_fewer_than_two_samples_is_named(text, opened, closed):
    assert bool(short(text)) == opened
    assert bool(short(text, closed=True)) == closed


def test_interval_of_the_group_counts():
    assert short("rate(a[10s])", 10_000) == [
        "the range of 10s holds 1 sample at an interval of 10s, since it excludes one exactly as old; make it 20s or longer"
    ]
    assert short("rate(a[5s])", 1_000) == []
    assert short("rate(a[1500ms])", 100) == []  # the minimum is a second
    assert len(short("rate(a[1s])", 100)) == 1


def test_subquery_has_its_own_steps():
    assert short("max_over_time(a[90s:1m])") == [
        "the range of 1m30s holds 1 step at an interval of 1m; make it 2m or longer"
    ]


def test_each_range_of_a_rule_is_named_once():
    assert len(short("rate(a[5s]) + rate(a[5s]) + rate(b[4s]) + rate(c[1m])")) == 2
