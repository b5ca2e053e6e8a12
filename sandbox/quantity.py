"""Kubernetes' resource quantities, exact: `100m`, `1.5Gi`, `10k`, `1e3`."""

import functools
import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII
)

_SCALES: dict[str | None, Fraction] = {
    None: Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(10 ** (3 * power)) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}


@functools.lru_cache(maxsize=1024)
def parse(text: str | int) -> Fraction:
    """Return a quantity's value. Raises ValueError if it is invalid."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"not a quantity: {text!r}")
    number, suffix, exponent = found.groups()
    scale = Fraction(10) ** int(exponent) if exponent else _SCALES[suffix]
    return Fraction(number) * scale
