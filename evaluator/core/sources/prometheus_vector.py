"""Parses instant vectors of Prometheus, and joins series with nodes by their labels."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from evaluator.core.model.names import UNREADABLE
from evaluator.core.sources.answer import (
    MeasurementTime,
    PolledAnswer,
    SourceError,
    reading,
)
from plimsoll.metric_names import spellings
from plimsoll.text import one_line

Labels = Mapping[str, str]
Join = Callable[[Labels], str | None]
"""Returns the node of a series; None if its labels name none."""


_MOST_WARNINGS = 3


class _Series(msgspec.Struct):
    metric: dict[str, str] = msgspec.field(default_factory=dict)
    value: tuple[float, str] | None = None


class MatrixSeries(msgspec.Struct):
    """One series of a range query: its labels, and (Unix seconds, value) pairs."""

    metric: dict[str, str] = msgspec.field(default_factory=dict)
    values: list[tuple[float, str]] = msgspec.field(default_factory=list)


class _LabelSets(msgspec.Struct):
    status: str = ""
    data: list[dict[str, str]] | None = None
    warnings: list[str] | None = None


class Matrix(NamedTuple):
    """The series of a range query, and warnings, such as that some data are left out."""

    series: list[MatrixSeries]
    warnings: tuple[str, ...]


class LabelSets(NamedTuple):
    """The labels of series, and warnings."""

    labels: list[dict[str, str]]
    warnings: tuple[str, ...]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Response(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False
    """Of VictoriaMetrics."""


_decode_response = msgspec.json.Decoder(_Response).decode
_decode_matrix = msgspec.json.Decoder(list[MatrixSeries]).decode
_decode_label_sets = msgspec.json.Decoder(_LabelSets).decode
_decode_vector = msgspec.json.Decoder(list[_Series]).decode


def selector(metric: str) -> str:
    """Return the query for a metric without a configured one: its own series, or that of the name with or without `node_`."""
    return " or ".join(f"{{__name__={_quoted(name)}}}" for name in spellings(metric))


def _quoted(text: str) -> str:
    """Return a PromQL string literal: its escapes are JSON's."""
    return msgspec.json.encode(text).decode()


def parse(body: bytes, metric: str, join: Join, now: MeasurementTime) -> PolledAnswer:
    """Return readings by node; several series of one node are several samples. The API's warnings and series
    of no node are flaws.

    Raises SourceError if it is not a vector, or has no series of a node.
    """
    response = _read(body)
    series = _vector(response)
    found: dict[str, list[_Series]] = {}
    unjoined: list[Labels] = []
    for one in series:
        node = join(one.metric)
        if node is None:
            unjoined.append(one.metric)
        else:
            found.setdefault(node, []).append(one)
    if not found:
        raise _no_readings(unjoined)
    flaws = [f"warning: {text}" for text in _warnings(response)[:_MOST_WARNINGS]]
    if unjoined:
        flaws.append(f"series of no node of the cluster are left out ({_example(unjoined)})")
    readings = {node: reading(_samples(metric, own, now)) for node, own in found.items()}
    return PolledAnswer(readings, tuple(flaws))


def _warnings(response: _Response) -> tuple[str, ...]:
    partial = ["some storage nodes did not answer: data are missing"] if response.is_partial else []
    return tuple(map(one_line, [*partial, *(response.warnings or ())]))


def matrix(body: bytes) -> Matrix:
    """Return the series of a range query. Raises SourceError."""
    response = _read(body)
    data = response.data
    assert data is not None
    if data.result_type != "matrix":
        raise SourceError("no_matrix", f"the query returns a {data.result_type}, not a matrix")
    try:
        return Matrix(_decode_matrix(data.result), _warnings(response))
    except UNREADABLE as error:
        raise SourceError("malformed", f"an invalid matrix: {error}") from error


def label_sets(body: bytes) -> LabelSets:
    """Return the label sets of an answer of /api/v1/series. Raises SourceError."""
    try:
        found = _decode_label_sets(body)
    except UNREADABLE as error:
        raise SourceError("malformed", f"not a response of Prometheus: {error}") from error
    if found.status != "success" or found.data is None:
        raise SourceError("refused", error_message(body) or "neither a result nor an error")
    return LabelSets(found.data, tuple(map(one_line, found.warnings or ())))


def error_message(body: bytes) -> str:
    """Return the API's error message; empty if the body is not one of its responses."""
    try:
        response = _decode_response(body)
    except UNREADABLE:
        return ""
    return ": ".join(part for part in (response.error_type, response.error) if part)


def _read(body: bytes) -> _Response:
    try:
        response = _decode_response(body)
    except UNREADABLE as error:
        raise SourceError("malformed", f"not a response of Prometheus: {error}") from error
    if response.status != "success" or response.data is None:
        raise SourceError("refused", error_message(body) or "neither a result nor an error")
    return response


def _vector(response: _Response) -> list[_Series]:
    data = response.data
    assert data is not None
    if data.result_type != "vector":
        raise SourceError(
            "no_vector", f"the query returns a {data.result_type or 'nothing'}, not a vector"
        )
    try:
        series = _decode_vector(data.result)
    except UNREADABLE as error:
        raise SourceError("malformed", f"an invalid vector: {error}") from error
    if any(one.value is None for one in series):
        raise SourceError(
            "histogram", "the query returns native histograms, which have no single value"
        )
    return series


def _samples(
    metric: str, own: Iterable[_Series], now: MeasurementTime
) -> Sequence[tuple[float, float]]:
    """Return the samples of one node; series with the metric's own name precede the others."""
    named = [one for one in own if one.metric.get("__name__") == metric]
    return [_sample(one, now) for one in named or own]


def _sample(series: _Series, now: MeasurementTime) -> tuple[float, float]:
    assert series.value is not None
    stamp, text = series.value
    try:
        return float(text), now.translate(stamp)
    except ValueError as error:
        raise SourceError("malformed", f"not a number: {text[:40]!r}") from error


def _no_readings(unjoined: Sequence[Labels]) -> SourceError:
    if not unjoined:
        return SourceError("empty", "no series")
    return SourceError(
        "unjoined", f"no series belongs to a node of the cluster ({_example(unjoined)})"
    )


def _example(unjoined: Sequence[Labels]) -> str:
    """Return the labels of one series: the same one in each answer, so that the text stays the same."""
    first = min(sorted(labels.items()) for labels in unjoined)
    text = ", ".join(f'{name}="{value}"' for name, value in first) or "none"
    return f"labels: {one_line(text)[:300]}"
