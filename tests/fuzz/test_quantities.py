"""Quantities and durations against independent parsers, written from the formats' definitions without regular expressions."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll import quantity
from plimsoll.durations import duration, format_duration

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
SECONDS = {"h": 3600, "m": 60, "s": 1, "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}  # fmt: skip
DIGITS = "0123456789"

digits = st.text(DIGITS, max_size=40)
numbers = st.tuples(digits, st.sampled_from(["", "."]), digits).map(
    lambda parts: parts[0] + parts[1] + (parts[2] if parts[1] else "")
)
exponents = st.tuples(
    st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.text(DIGITS, max_size=3)
).map("".join)
suffixes = st.one_of(st.sampled_from([*DECIMAL, *BINARY]), exponents)
quantities = st.tuples(st.sampled_from(["", "+", "-"]), numbers, suffixes).map("".join)
almost = st.text(DIGITS + "+-.eEnumkKMGTPi_ ", max_size=12)


def meant(text):
    """The value of a quantity; None if invalid."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    end = 0
    while end < len(rest) and rest[end] in DIGITS + ".":
        end += 1
    number, suffix = rest[:end], rest[end:]
    before, _, after = number.partition(".")
    if "." in after or not before + after or len(before) > 40 or len(after) > 40:
        return None
    with localcontext(prec=3000):
        value = Decimal(number) * (-1 if text[0] == "-" else 1)
        if suffix in DECIMAL:
            return value.scaleb(DECIMAL[suffix])
        if suffix in BINARY:
            return value * 2 ** BINARY[suffix]
        power = suffix[1:]
        size = power[1:] if power[:1] in {"+", "-"} else power
        if suffix[:1] in {"e", "E"} and 1 <= len(size) <= 3 and set(size) <= set(DIGITS):
            return value.scaleb(int(power))
    return None


@given(st.one_of(quantities, almost))
def test_quantity_is_the_nearest_double(text):
    value = meant(text)
    if value is None or float(value) in {float("inf"), float("-inf")}:
        with pytest.raises(ValueError, match="quantity"):
            quantity.parse(text)
    else:
        assert quantity.parse(text) == float(value)


@given(
    st.lists(
        st.tuples(numbers.filter(lambda n: n.strip(".")), st.sampled_from([*SECONDS])),
        min_size=1,
        max_size=4,
    )
)
def test_duration_is_the_sum_of_its_parts(parts):
    seconds = sum(Fraction(Decimal(number)) * SECONDS[unit] for number, unit in parts)
    text = "".join(number + unit for number, unit in parts)
    if len(text) > 100:
        with pytest.raises(ValueError, match="not a duration"):
            duration(text)
    else:
        assert duration(text) == pytest.approx(float(seconds), rel=1e-12)


@given(st.integers(0, 10**6))
def test_duration_round_trips(milliseconds):
    seconds = milliseconds / 1000 if milliseconds < 1000 else milliseconds // 1000
    assert duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-15)
