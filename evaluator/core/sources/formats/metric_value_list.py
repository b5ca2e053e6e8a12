"""Parses a MetricValueList, the custom metrics API's response (v1beta2 and v1beta1) for one metric of all nodes."""

import functools

import msgspec

from evaluator.core.sources.formats.answer import (
    MeasurementTime,
    PolledAnswer,
    SourceError,
    reading,
)
from plimsoll import quantity, rfc3339
from plimsoll.decode import UNREADABLE
from plimsoll.text import one_line


class _Described(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct, rename="camel"):
    """A MetricValue. The window has two names and ends at the timestamp, which is the age of the value."""

    described_object: _Described = msgspec.field(default_factory=_Described)
    timestamp: str | None = None
    value: str | int | float | None = None
    window_seconds: int | None = None
    window: int | None = None


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_List).decode
_decode_item = msgspec.json.Decoder(_Item).decode
_unix_time = functools.lru_cache(maxsize=256)(
    rfc3339.parse
)  # the items of a response share a few timestamps


def parse(body: bytes, now: MeasurementTime) -> PolledAnswer:
    """Return readings by node. An invalid item is a flaw and does not hide the others.

    Raises SourceError if it is not such a list, or has no valid reading: an empty list does not mean that every node
    lacks the metric.
    """
    try:
        items = _decode_list(body).items or []
    except UNREADABLE as error:
        raise SourceError("malformed", f"not a list of metric values: {error}") from error
    samples: dict[str, list[tuple[float, float]]] = {}
    errors: dict[str, int] = {}
    for raw in items:
        try:
            node, value, at = _item(_decode_item(raw))
        except (*UNREADABLE, ValueError) as error:
            why = one_line(str(error), 200)
            errors[why] = errors.get(why, 0) + 1
        else:
            samples.setdefault(node, []).append((value, now.translate(at)))
    flaws = tuple(
        f"{count} of {len(items)} values cannot be read: {why}" for why, count in errors.items()
    )
    if not samples:
        raise SourceError("malformed" if flaws else "empty", "; ".join(flaws) or "it lists no node")
    return PolledAnswer({node: reading(found) for node, found in samples.items()}, flaws[:1])


def _item(item: _Item) -> tuple[str, float, float]:
    if not item.described_object.name:
        raise ValueError("it names no node")
    if item.value is None:
        raise ValueError("it has no value")
    if not item.timestamp:
        raise ValueError("it has no timestamp")
    if (item.window_seconds or item.window or 0) < 0:
        raise ValueError("a negative window")
    value = _number(item.value) if isinstance(item.value, str) else _double(item.value)
    return item.described_object.name, value, _unix_time(item.timestamp)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError("a number out of range") from error


def _number(text: str) -> float:
    """Return the number of a quantity; integers and thousandths, the usual forms, take an equally exact shortcut."""
    digits = text.removesuffix("m")
    if digits.isascii() and digits.isdigit() and len(digits) <= 15:
        return int(digits) / (1000 if text.endswith("m") else 1)
    return quantity.parse(text)
