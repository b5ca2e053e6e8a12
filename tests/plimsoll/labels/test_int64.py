"""Integers in text are those that Go's strconv.ParseInt accepts."""

import pytest

from plimsoll.labels import int64


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4),
        ("+4", 4),
        ("-4", -4),
        ("004", 4),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("", None),
        ("+", None),
        (" 4", None),
        ("4\n", None),
        ("1_000", None),
        ("007", 7),
        ("0" * 5000 + "7", 7),
        ("\uff11", None),
        ("-0", 0),
        ("--1", None),
        ("4.0", None),
        ("0x4", None),
        ("٤", None),
        ("9" * 5000, None),
    ],
)
def test_number_is_parsed_as_by_go(text: str, number: int | None) -> None:
    assert int64.parse(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-456", -456),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("9" * 5000, None),
        ("+1", None),
        ("-0", None),
        ("007", None),
        ("-", None),
        ("", None),
        ("1_000", None),
    ],
)
def test_canonical_form_has_no_plus_sign_and_no_leading_zero(text: str, number: int | None) -> None:
    assert int64.parse_canonical(text) == number
