"""Kubernetes quantities: exact values, and a sentence for invalid ones."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll import quantity

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
SCALES = {suffix: Fraction(10) ** power for suffix, power in DECIMAL.items()} | {
    suffix: Fraction(2) ** power for suffix, power in BINARY.items()
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("1", 1.0),
        ("+1", 1.0),
        ("-1", -1.0),
        ("007", 7.0),
        ("1500m", 1.5),
        ("-1500m", -1.5),
        ("0.1", 0.1),
        (".5", 0.5),
        ("5.", 5.0),
        ("1Ki", 1024.0),
        ("1.5Ki", 1536.0),
        ("1k", 1000.0),
        ("1e3", 1000.0),
        ("1E3", 1000.0),
        ("1e+3", 1000.0),
        ("1e-3", 0.001),
        ("1E", 1e18),
        ("1Ei", 2.0**60),
        ("100n", 1e-7),
        ("1e308", 1e308),
        ("1e-400", 0.0),
        ("9007199254740991", 2.0**53 - 1),
        ("9007199254740992", 2.0**53),
        ("8Pi", 2.0**53),
        ("9007199254740991000m", 2.0**53 - 1),
    ],
)
def test_values_are_parsed(text, value):
    assert quantity.parse(text) == value


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("100m", Fraction(1, 10)),
        ("1.5Gi", 3 * 2**29),
        ("-1", -1),
        ("5e-1", Fraction(1, 2)),
        ("1E", 10**18),
    ],
)
def test_exact_values_are_not_rounded(text, amount):
    assert quantity.exact(text) == amount


@pytest.mark.parametrize(
    "text", ["one", "1 Gi", "1KB", "1e", "0x10", "1.2.3", "Ki", "1e9999", "\uff11", "1e\u0663"]
)
def test_exact_rejects_what_is_not_a_quantity(text):
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.exact(text)


def test_largest_exact_integers_stay_distinct():
    assert quantity.parse(str(2**53 - 1)) < quantity.parse(str(2**53))
    assert quantity.parse(str(2**53)) == quantity.parse(
        str(2**53 + 1)
    )  # beyond: the nearest double


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "1 ", " 1", "1 Ki", "1\n", "one", "NaN", "Inf", "-inf", "0x10", "1_000", "1,5"],
        *["ki", "1K", "1ki", "1KI", "1mi", "1g", "1e", "1e3k", "1e3Ki", "1ee3", "1e1.5", "--1"],
        *["+-1", "1-", ".", "-.", "1..2", "1.2.3", "٣", "1µ", "m", "1mm", "1Kim", "1e1000"],
    ],
)
def test_invalid_quantity_is_rejected_in_words(text):
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.parse(text)


@pytest.mark.parametrize("text", ["1e309", "1e999", "9" * 40 + "e300"])
def test_quantity_beyond_doubles_is_rejected_in_words(text):
    with pytest.raises(ValueError, match="beyond any measure"):
        quantity.parse(text)


def test_megabyte_of_digits_is_rejected_and_not_repeated():
    with pytest.raises(ValueError, match="not a quantity") as refused:
        quantity.parse("9" * 1_000_000)
    assert len(str(refused.value)) < 200


@given(st.integers(-(2**53), 2**53))
def test_every_integer_up_to_two_to_the_53_is_exact(number):
    assert quantity.parse(str(number)) == number
    assert quantity.parse(f"{number}000m") == number


@given(
    st.integers(-(10**18), 10**18),
    st.integers(0, 18),
    st.sampled_from(sorted(SCALES)),
)
def test_value_is_the_nearest_double(digits, places, suffix):
    mantissa = Fraction(digits, 10**places)
    sign = "-" if mantissa < 0 else ""
    whole, fraction = divmod(abs(digits), 10**places)
    text = f"{sign}{whole}.{fraction:0{places}d}" if places else f"{sign}{whole}"
    assert quantity.parse(f"{text}{suffix}") == float(mantissa * SCALES[suffix])


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_printed_double_is_parsed_to_the_same_value(value):
    assert quantity.parse(repr(value)) == value


@given(st.text(max_size=12))
def test_any_text_is_parsed_or_rejected(text):
    with contextlib.suppress(ValueError):
        assert isinstance(quantity.parse(text), float)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (3.0, "3"),
        (-3.0, "-3"),
        (1.5, "1500m"),
        (-0.5, "-500m"),
        (0.001, "1m"),
        (0.1, "100m"),
        (0.1 + 0.2, "0.30000000000000004"),
        (2.0**53, "9007199254740992"),
        (1e22, "1e22"),
        (5e-324, "5e-324"),
    ],
)
def test_numbers_are_written(value, text):
    assert quantity.text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_written_numbers_are_parsed_as_the_same_double(value):
    assert quantity.parse(quantity.text(value)) == value
