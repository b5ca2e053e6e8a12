"""Parses and formats numbers like Go's strconv: `1e+06`, `+Inf`; never `1_000`, `0x10` or ` 1`."""

import math
import re
from collections.abc import Sequence

from plimsoll.floats import not_finite

_FLOAT = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?inf(?:inity)?|nan", re.IGNORECASE
)
_MAX_DIGITS = 20  # of an unsigned 64-bit number, the widest in the kernel
_MAX = (1 << 64) - 1
_MAX_HEX_DIGITS = 16
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


def parse_float(text: str) -> float:
    """Parse a decimal number, infinity or NaN. Raises ValueError for other text, which Python's float() might accept."""
    if _FLOAT.fullmatch(text) is None:
        raise ValueError(f"not a number: {text[:40]!r}")
    value = float(text)
    if math.isinf(value) and "i" not in text.lower():
        raise ValueError(f"out of range: {text[:40]!r}")
    return value


def parse_uint(text: str) -> int:
    """Parse an unsigned decimal, as in the kernel's counters."""
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise ValueError(f"not an unsigned number: {text[:40]!r}")
    number = int(text)
    if number > _MAX:
        raise ValueError(f"more than 64 bits: {text[:40]!r}")
    return number


def parse_uints(texts: Sequence[str]) -> tuple[int, ...]:
    """Parse many unsigned decimals, validated together for speed."""
    together = "".join(texts)
    plain = together.isascii() and together.isdigit() and all(texts)
    if plain and max(map(len, texts)) < _MAX_DIGITS:
        return tuple(map(int, texts))
    return tuple(map(parse_uint, texts))  # raises for the invalid one


def parse_int(text: str) -> int:
    """Parse a decimal that may be negative: a temperature, a node number of -1."""
    return -parse_uint(text[1:]) if text.startswith("-") else parse_uint(text)


def format_float(value: float) -> str:
    """Return the shortest text that round-trips, like Go's %g: with an exponent from 1e+06 up and below 0.0001."""
    text = repr(float(value))
    if 1e-4 <= abs(value) < 1e6 or value == 0:
        return text.removesuffix(".0")
    if not math.isfinite(value):
        return not_finite(value)
    if text.endswith(".0"):  # the common case: integers
        digits = text[:-2].rstrip("0")
        if digits[0] != "-":
            point = "." if len(digits) > 1 else ""
            return f"{digits[0]}{point}{digits[1:]}e+{len(text) - 3:02d}"
    return _scientific(text)


def _scientific(text: str) -> str:
    """Reformat repr's `1234567.0` or `1.5e+16` with an exponent of at least two digits: `1.234567e+06`."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    power = int(exponent or 0) + len(whole) - 1 - leading_zeros
    digits = digits.rstrip("0")
    point = "." if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{point}{digits[1:]}e{'-' if power < 0 else '+'}{abs(power):02d}"


def parse_hex(text: str) -> int:
    """Return the value of a hexadecimal number in a column of a kernel file, without a prefix: never `0x1f`, `+1f`, `1_f` or ` 1f`."""
    if not text or len(text) > _MAX_HEX_DIGITS or not _HEX_DIGITS.issuperset(text):
        raise ValueError(f"not a hexadecimal number: {text[:40]!r}")
    return int(text, 16)
