"""Numbers are formatted as by Go's strconv.FormatFloat(x, 'f', -1, 64)."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql.syntax.float_format import positional


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
