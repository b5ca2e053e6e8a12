"""Parses hexadecimal numbers in columns of kernel files, without a prefix: never `0x1f`, `+1f`, `1_f` or ` 1f`."""

_DIGITS = frozenset("0123456789abcdefABCDEF")
_MAX_DIGITS = 16  # of an unsigned 64-bit number


def parse_hex(text: str) -> int:
    """Return the value of an unsigned hexadecimal number."""
    if not text or len(text) > _MAX_DIGITS or not _DIGITS.issuperset(text):
        raise ValueError(f"not a hexadecimal number: {text[:40]!r}")
    return int(text, 16)
