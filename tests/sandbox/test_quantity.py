"""Quantities are exact, and nonsense is refused."""

from fractions import Fraction

import pytest

from sandbox import quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", 1),
        (1, 1),
        ("0", 0),
        ("100m", Fraction(1, 10)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("10k", 10_000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("-1", -1),
        ("5e-1", Fraction(1, 2)),
    ],
)
def test_parse(text, amount):
    assert quantity.parse(text) == amount


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one",
        "1 Gi",
        "1KB",
        "1e",
        "0x10",
        "1.2.3",
        "Ki",
        "1e9999",
        "\uff11",
        "1\uff10Ki",
        "1e\u0663",
    ],
)
def test_what_is_no_quantity(text):
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.parse(text)
