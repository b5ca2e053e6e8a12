"""Values are printed as by promtool, numbers as by Go; tests/agent/eval/test_command.py compares with promtool itself."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql.labels import make
from agent.rules.promql.syntax.printer import lines, positional, series

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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (123456789.125, "123456789.125"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1.5e17, "150000000000000000"),
        (1e23, "100000000000000000000000"),
        (-1.2345678901234567e16, "-12345678901234568"),
        (1e-4, "0.0001"),
        (1e-7, "0.0000001"),
        (-1.25e-7, "-0.000000125"),
        (5e-324, f"0.{'0' * 323}5"),
        (1.7976931348623157e308, f"17976931348623157{'0' * 292}"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_text_has_no_exponent_and_no_needless_digit(value, text):
    assert positional(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_text_denotes_the_same_number(value):
    text = positional(value)
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]*[1-9])?", text)
    assert repr(float(text)) == repr(value)
