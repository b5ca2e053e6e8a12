"""Parses and writes Kubernetes resource.Quantity, and writes readings with their units, as people write them.

`1500m` is 1.5, `1Ki` is 1024, `1k` is 1e3. Format:
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/

`readable` is for messages, pages and tables; documents for programs keep the number. The unit of a metric is the end of its
name, as Prometheus recommends: https://prometheus.io/docs/practices/naming/.

    readable("node_memory_MemAvailable_bytes", 2.127e10)        # 19.8 GiB
    readable("node_cpu_used_cores", 2.31)                       # 2.31 cores
    readable("node_load1", 6.0004, target=6)                    # 6.0004: it is not 6
"""

import functools
import math
import re
from fractions import Fraction

from plimsoll.durations import format_duration
from plimsoll.floats import not_finite

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

_DIGITS, _MOST_DIGITS = 3, 17
"""Significant digits, and those that tell all doubles apart."""
_LONGEST = 1e15
"""Numbers from here on are written with an exponent."""
_MOST_SECONDS = 1e8
"""Three years: more seconds are a time, not a duration."""
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_HERTZ = ("Hz", "kHz", "MHz", "GHz")
_SYMBOLS = {
    "celsius": "°C",
    "percent": "%",
    "volts": "V",
    "amperes": "A",
    "watts": "W",
    "watt": "W",
    "joules": "J",
    "rpm": "rpm",
}
_RATE, _COUNTER = "_per_second", "_total"


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


def json_number(value: float) -> float | str | None:
    """Return a reading for JSON, which has no infinities: these as `+Inf` and `-Inf`; NaN, which is no reading, as None."""
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else not_finite(value)


def readable(metric: str, value: float | str, target: float | None = None) -> str:
    """Return a reading of a metric, with three significant digits or, if it differs from `target`, as many as show that.

    Text, such as that of an infinity in JSON, is returned as it is.
    """
    if isinstance(value, str):
        return value
    digits = _DIGITS
    text = _written(metric, value, digits)
    while (
        target is not None
        and value != target
        and digits < _MOST_DIGITS
        and text == _written(metric, target, digits)
    ):
        digits += 1
        text = _written(metric, value, digits)
    return text


def number(value: float, digits: int = _DIGITS) -> str:
    """Return a number without an exponent, if it is between 0.0001 and 10^15; integers have all their digits."""
    if not math.isfinite(value):
        return not_finite(value)
    if abs(value) >= _LONGEST or 0 < abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    if value == int(value):
        return str(int(value))
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _written(metric: str, value: float, digits: int) -> str:
    name = metric.removesuffix(_COUNTER)
    per_second = "/s" if name.endswith(_RATE) else ""
    unit = name.removesuffix(_RATE).rpartition("_")[2]
    if not math.isfinite(value):
        return number(value)
    match unit:
        case "bytes":
            return _scaled(value, 1024, _BINARY, digits) + per_second
        case "hertz":
            return _scaled(value, 1000, _HERTZ, digits)
        case "seconds" if not per_second and abs(value) < _MOST_SECONDS:
            return _seconds(value, digits)
        case "cores":
            text = number(value, digits)
            return f"{text} core" if text == "1" else f"{text} cores"
        case _ if unit in _SYMBOLS:
            return f"{number(value, digits)} {_SYMBOLS[unit]}{per_second}"
        case _:
            return number(value, digits)


def _scaled(value: float, base: int, units: tuple[str, ...], digits: int) -> str:
    """Return a value in the largest unit of which it has one."""
    power = 0
    while power + 1 < len(units) and round(abs(value), 6) >= base:
        value, power = value / base, power + 1
    return f"{number(value, digits)} {units[power]}"


def _seconds(value: float, digits: int) -> str:
    """Return a duration: 250 ms, 12.5 s, 1m30s, 2d3h."""
    if value < 0:
        return f"-{_seconds(-value, digits)}"
    if 0 < value < 1:
        return f"{number(value * 1000, digits)} ms"
    if value < 60:
        return f"{number(value, digits)} s"
    decimals = max(0, digits - 1 - math.floor(math.log10(value)))
    days, rest = divmod(round(value, decimals), 86400)
    return (f"{days:.0f}d" if days else "") + (format_duration(rest) if rest or not days else "")
