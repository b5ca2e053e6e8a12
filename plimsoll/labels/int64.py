"""Decimal integers of 64 bits in text, as Kubernetes compares them in selectors and tolerations."""

import re

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")
_LEAST, _MOST = -(2**63), 2**63 - 1


def parse(text: str) -> int | None:
    """Return the number as Go's `strconv.ParseInt(text, 10, 64)` does; None if that fails.

    An optional sign and ASCII digits. Python's `int()` also accepts blanks, underscores and digits of other scripts.
    """
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if _LEAST <= number <= _MOST else None


def parse_canonical(text: str) -> int | None:
    """Return the number if it is written without a plus sign and leading zeros, else None."""
    return parse(text) if _CANONICAL.fullmatch(text) else None
