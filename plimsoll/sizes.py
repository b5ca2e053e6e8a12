"""Sizes in bytes in flags: 65536, 16KiB, 128MiB."""

import re

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"(\d{1,15})([KMG]iB|B|)", re.ASCII)


def size(text: str) -> int:
    """Parse a size of 1 byte or more."""
    if (number := size_or_zero(text)) < 1:
        raise _invalid(text)
    return number


def size_or_zero(text: str) -> int:
    """Parse a size of 0 bytes or more."""
    if (match := _SIZE.fullmatch(text)) is None:
        raise _invalid(text)
    return int(match[1]) * _UNITS[match[2]]


def _invalid(text: str) -> ValueError:
    return ValueError(f"not a size: {text[:40]!r} (write it like 65536, 16KiB or 128MiB)")


def format_size(number: int) -> str:
    """Return the shortest exact notation of a size."""
    for unit in ("GiB", "MiB", "KiB"):
        if number and number % _UNITS[unit] == 0:
            return f"{number // _UNITS[unit]}{unit}"
    return str(number)
