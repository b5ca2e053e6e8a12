"""Parses and writes Kubernetes resource.Quantity: `1500m` is 1.5, `1Ki` is 1024, `1k` is 1e3.

Format: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import functools
import re
from fractions import Fraction

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
# An exponent excludes a suffix. `E` alone is exa, `E` before digits is an exponent, so the exponent is tried first.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})"
    r"(?:[eE](?P<exponent>[+-]?\d{1,3})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)

_MILLI = 3
"""Decimals that the suffix `m` covers."""


@functools.lru_cache(maxsize=1024)
def exact(text: str) -> Fraction:
    """Return the exact value of a quantity. Raises ValueError if it is invalid or too large for a double."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text[:80]!r} (write it like 3, 1500m, 2Gi or 1e3)")
    exponent, suffix = match["exponent"], match["suffix"]
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    value = Fraction(match["sign"] + match["digits"]) * scale
    try:
        float(value)
    except OverflowError as error:
        raise ValueError(f"a quantity beyond any measure: {text[:80]!r}") from error
    return value


def parse(text: str) -> float:
    """Return the value of a quantity as a correctly rounded double (exact for integers up to 2^53).

    Raises ValueError if it is invalid or too large for a double.
    """
    return float(exact(text))


def text(value: float) -> str:
    """Return a finite number as a quantity that `parse` reads as the same double: `3`, `1500m`, `0.30000000000000004`.

    Go's Quantity rounds anything finer than 1n up, and caps at 2^63-1.
    """
    written = repr(value)
    if "e" in written:
        return written.replace("e+", "e")
    whole, _, fraction = written.partition(".")
    if fraction in ("0", ""):
        return whole
    return written if len(fraction) > _MILLI else _thousandths(whole, fraction)


def _thousandths(whole: str, fraction: str) -> str:
    digits = (whole + fraction.ljust(_MILLI, "0")).removeprefix("-").lstrip("0")
    return f"-{digits}m" if whole.startswith("-") else f"{digits}m"
