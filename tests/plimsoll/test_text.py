"""Foreign text in our sentences: one line, no control characters, bounded length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.text import LONGEST, NearNames, SentenceError, counted, one_line, shown


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("as it is", "as it is"),
        ("two\r\n  lines\tand more ", "two lines and more"),
        ("red \x1b[31m", r"red \u001b[31m"),
        ("half \ud800", r"half \ud800"),
        ("é 😀", "é 😀"),
        ("x" * LONGEST, "x" * LONGEST),
        ("x" * (LONGEST + 1), "x" * (LONGEST - 3) + "..."),
        (" " * 10_000 + "x", "..."),
    ],
)
def test_text_becomes_one_line(text, line):
    assert one_line(text) == line


@given(st.text())
def test_any_text_is_printable_and_bounded(text):
    line = one_line(text, 20)
    assert line.isprintable()
    assert len(line) <= 20


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "'a b'"),
        ("a\n", r"'a\n'"),
        (3, "3"),
        ({"x": 1}, "{'x': 1}"),
        ([[[[[[]]]]]], "[[[[...]]]]"),
    ],
)
def test_value_is_shown_as_written(value, text):
    assert shown(value) == text


@pytest.mark.parametrize("value", ["x" * 100, 10**200, ["x" * 30] * 10, {"k" * 90: 1}])
def test_long_value_is_cut(value):
    assert len(shown(value)) <= 80
    assert "..." in shown(value)


def test_error_without_a_quote_has_a_message():
    assert str(SentenceError("\n")) == "no reason was given"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, "node"), "0 nodes"),
        ((1, "node"), "1 node"),
        ((2, "node"), "2 nodes"),
        ((1, "policy", "policies"), "1 policy"),
        ((3, "policy", "policies"), "3 policies"),
    ],
)
def test_count_agrees_with_its_noun(arguments, text):
    assert counted(*arguments) == text


METRICS = NearNames(
    [
        "health_metric",
        "load1",
        "load15",
        "load5",
        "memory_MemAvailable_bytes",
        "memory_MemFree_bytes",
        "filesystem_avail_bytes",
        "cpu_seconds_total",
    ]
)


@pytest.mark.parametrize(
    ("misspelt", "first"),
    [
        ("health_metrc", "health_metric"),
        ("Health_Metric", "health_metric"),
        ("healthmetric", "health_metric"),
        ("memory_memavailable_bytes", "memory_MemAvailable_bytes"),
        ("MemAvailable_bytes", "memory_MemAvailable_bytes"),
        ("filesytem_avail_bytes", "filesystem_avail_bytes"),
        ("load_1", "load1"),
    ],
)
def test_similar_name_is_suggested_first(misspelt, first):
    assert METRICS.find(misspelt)[0] == first


def test_unrelated_name_has_no_suggestion():
    assert METRICS.find("queue_depth") == []
    assert METRICS.find("") == []
    assert NearNames([]).find("load1") == []


def test_suggestions_are_limited_and_exclude_the_name_itself():
    assert METRICS.find("load5", 2) == ["load15", "load1"]
