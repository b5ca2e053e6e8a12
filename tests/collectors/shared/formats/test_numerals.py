import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.shared.formats.numerals import (
    format_float,
    parse_float,
    parse_hex,
    parse_int,
    parse_uint,
    parse_uints,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-3.5, "-3.5"),
        (0.1, "0.1"),
        (999999.0, "999999"),
        (1000000.0, "1e+06"),
        (1234567.0, "1.234567e+06"),
        (-1234567.25, "-1.23456725e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5e-7, "1.5e-07"),
        (1e16, "1e+16"),
        (9007199254740993.0, "9.007199254740992e+15"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_floats_are_printed_as_by_go(value: float, text: str) -> None:
    assert format_float(value) == text


@given(st.floats(allow_nan=False))
def test_printed_floats_are_parsed_exactly(value: float) -> None:
    assert parse_float(format_float(value)) == value


@pytest.mark.parametrize("text", ["1", "+1", "-.5", "5.", "1e3", "1E-3", "Inf", "-infinity", "NaN"])
def test_numbers_accepted_by_go_are_parsed(text: str) -> None:
    parse_float(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1_0",
        "0x10",
        ".",
        "e3",
        "1e",
        "+nan",
        "٣",
        "1,5",
        "1e999",
        "-1e999",
        "--1",
        "1\n",
    ],
)
def test_numbers_rejected_by_go_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a number|out of range"):
        parse_float(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1_0", "٣", "9" * 21, "0x1"])
def test_other_text_is_no_unsigned_number(text: str) -> None:
    with pytest.raises(ValueError, match="not an unsigned number"):
        parse_uint(text)


def test_largest_counter_is_parsed() -> None:
    assert parse_uint("18446744073709551615") == 2**64 - 1


def test_many_unsigned_numbers_are_parsed_at_once() -> None:
    assert parse_uints(["0", "007", "18446744073709551615"]) == (0, 7, 2**64 - 1)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_0", "1.5", "x", "\u0661", "9" * 21])
def test_one_invalid_number_among_many_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not an unsigned number"):
        parse_uints(["1", text, "2"])


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("-0", 0), ("42", 42), ("-5500", -5500)])
def test_integers_may_be_negative(text: str, value: int) -> None:
    assert parse_int(text) == value


@pytest.mark.parametrize("text", ["", "-", "--1", "+1", "- 1", "1-", "-1.5", "-" + "9" * 21])
def test_other_text_is_no_integer(text: str) -> None:
    with pytest.raises(ValueError, match="not an unsigned number"):
        parse_int(text)


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("000001f4", 500), ("ffffffffffffffff", 2**64 - 1), ("1F4", 500)]
)
def test_kernel_hexadecimals_are_parsed(text: str, value: int) -> None:
    assert parse_hex(text) == value


@pytest.mark.parametrize(
    "text", ["", "0x1f", "+1f", "-1", "1_f", " 1f", "1f\n", "g", "0" * 17, "\uff11"]
)
def test_other_python_notations_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a hexadecimal number"):
        parse_hex(text)
