"""Values are printed as by promtool; tests/agent/eval/test_command.py compares with promtool itself."""

import math

import pytest

from agent.rules.promql.labels import make
from agent.rules.promql.syntax.printer import lines, series

UNIX = 1_700_000_000_250


def test_vector_is_one_sorted_line_per_series():
    vector = [
        (make({"__name__": "b", "cpu": "1"}.items()), 2.0),
        (make({"__name__": "b", "cpu": "0"}.items()), 1e21),
        (make({"__name__": "a"}.items()), math.nan),
        (make({"cpu": "7", "a": "x"}.items()), -math.inf),
        (make([]), 0.1),
    ]
    assert lines(vector, UNIX) == [
        "{} => 0.1 @[1700000000.25]",
        '{a="x", cpu="7"} => -Inf @[1700000000.25]',
        "a => NaN @[1700000000.25]",
        'b{cpu="0"} => 1000000000000000000000 @[1700000000.25]',
        'b{cpu="1"} => 2 @[1700000000.25]',
    ]


def test_scalar_and_string_are_one_line():
    assert lines(-1.5, 1_700_000_000_000) == ["scalar: -1.5 @[1700000000]"]
    assert lines("words", UNIX) == ["words"]


def test_empty_vector_prints_nothing():
    assert lines([], UNIX) == []


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ('say "no"', r'"say \"no\""'),
        ("back\\slash", r'"back\\slash"'),
        ("two\nlines\t", r'"two\nlines\t"'),
        ("größe ✓", '"größe ✓"'),
        ("\x1b[31m\x00\x7f", r'"\x1b[31m\x00\x7f"'),
        ("\u202e\U000e0001", r'"\u202e\U000e0001"'),
    ],
)
def test_label_is_quoted_as_by_go_without_control_characters(value, written):
    assert series(make({"__name__": "m", "l": value}.items())) == f"m{{l={written}}}"
