"""Patterns on the last lines of a log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.shared.problems.matching import LineMatcher, Rule


def matches(pattern: str, *lines: str, size: int = 3) -> list[tuple[str, ...]]:
    matcher = LineMatcher([Rule("R", pattern, "", "")], size)
    return [match.lines for line in lines for match in matcher.push(line)]


@pytest.mark.parametrize(
    ("pattern", "lines", "found"),
    [
        ("error", ["an error"], [("an error",)]),
        ("error", ["an error here"], []),  # not to the end of the line
        ("error.*", ["an error here"], [("an error here",)]),
        ("error", ["  error  "], [("error",)]),
        ("a\nb", ["a", "b", "b"], [("a", "b")]),
        ("a\nb\nc\nd", ["a", "b", "c", "d"], []),  # more lines than are kept
        ("(?s)a.*d", ["a", "b", "d"], [("a", "b", "d")]),
        ("a.*d", ["a", "d"], []),  # a dot matches no line break
        ("a|b", ["a x"], [("a x",)]),  # the end binds the last alternative only
        ("a|b", ["b x"], []),
        (r"^\n\nfirst", ["first"], [("first",)]),  # empty lines come before the first ones
        ("error", ["error", "error"], [("error",), ("error",)]),
        ("x\ufffd", ["x\udcff"], [("x\udcff",)]),
        ("é+", ["éé"], [("éé",)]),
        (r"\[#\d+\] SMP", ["divide error: 0000 [#1] SMP"], [("divide error: 0000 [#1] SMP",)]),
    ],
)  # fmt: skip
def test_pattern_matches_up_to_the_end_of_the_last_line(pattern, lines, found) -> None:
    assert matches(pattern, *lines) == found


def test_message_has_all_lines_and_the_suffix() -> None:
    matcher = LineMatcher([Rule("R", "a\nb", "", "see the runbook")], 5)
    assert [m.message for line in ("a", "b") for m in matcher.push(line)] == [
        "a\nb; see the runbook"
    ]


def test_hostile_lines_take_linear_time() -> None:
    matcher = LineMatcher([Rule("R", "(a*)*b", "", ""), Rule("S", "(x+x+)+y", "", "")], 10)
    for _ in range(50):
        assert matcher.push("a" * 4000) == []
        assert matcher.push("x" * 4000) == []


@given(st.lists(st.text(max_size=200), max_size=10))
def test_any_lines_are_matched_or_not(lines: list[str]) -> None:
    matcher = LineMatcher([Rule("R", "E.*", "", ""), Rule("S", r".*\nF", "", "")], 3)
    for line in lines:
        for match in matcher.push(line):
            assert match.lines
            assert len(match.lines) <= 3
