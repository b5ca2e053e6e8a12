"""Encodes families as text format 0.0.4 or OpenMetrics 1.0.0, and negotiates the format; and as lines of recordings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collectors.interface.sample import Family, Labels, MetricType, Sample
from collectors.shared.formats.numerals import format_float, parse_float
from plimsoll.recording import series

_KEPT = 1 << 12  # families; a node has about 500
_STEP_LABELS = {"histogram": "le", "summary": "quantile"}


@dataclass(frozen=True, slots=True)
class Format:
    """An exposition format: its name and versions in a Content-Type, and its encoder."""

    media_type: str
    versions: tuple[str, ...]
    content_type: str
    encode: Callable[[Iterable[Family]], bytes]


@dataclass(frozen=True, slots=True)
class _Known:
    """The constant part of an encoded family: HELP and TYPE, and each line up to its value."""

    type: MetricType
    help: str
    names: tuple[str, ...]
    labels: tuple[Labels, ...]
    lines: list[str]


class _Written(NamedTuple):
    """The text of a family with some values. Most families have the same ones in the next scrape."""

    type: MetricType
    help: str
    samples: Sequence[Sample]
    text: str


class _Writer:
    """Encodes families in one format. It caches the constant part of each family, and its text while its values are equal.

    Any thread may call it: cached entries are replaced, never modified.
    """

    def __init__(
        self,
        head: Callable[[Family], str],
        series: Callable[[Family], list[str]],
        number: Callable[[float], str],
        *,
        end: str = "",
    ) -> None:
        self._head = head
        self._series = series
        self._number = number
        self._end = end
        self._known: dict[str, _Known] = {}
        self._written: dict[str, _Written] = {}

    def __call__(self, families: Iterable[Family]) -> bytes:
        """Return all families as one text."""
        texts = [self._text(family) for family in families if family.samples]
        texts.append(self._end)
        return "".join(texts).encode()

    def _text(self, family: Family) -> str:
        known = self._written.get(family.name)
        if (
            known is not None
            and known.samples == family.samples
            and known.help == family.help
            and known.type == family.type
        ):
            return known.text
        names, labels, values = zip(*family.samples, strict=True)
        lines, numbers = self._lines(family, names, labels), map(self._number, values)
        text = "".join([f"{line} {n}\n" for line, n in zip(lines, numbers, strict=True)])
        self._written[family.name] = _Written(family.type, family.help, family.samples, text)
        return text

    def _lines(
        self, family: Family, names: tuple[str, ...], labels: tuple[Labels, ...]
    ) -> list[str]:
        known = self._known.get(family.name)
        if (
            known is not None
            and known.labels == labels
            and known.names == names
            and known.help == family.help
            and known.type == family.type
        ):
            return known.lines
        if len(self._known) >= _KEPT:
            self._known.clear()
            self._written.clear()
        first, *others = self._series(family)
        lines = [f"{self._head(family)}{first}", *others]
        self._known[family.name] = _Known(family.type, family.help, names, labels, lines)
        return lines


def _text_head(family: Family) -> str:
    name = family.name
    return f"# HELP {name} {_escape_help(family.help)}\n# TYPE {name} {family.type}\n"


def _text_series(family: Family) -> list[str]:
    return [f"{name}{_label_set(labels)}" for name, labels, _ in family.samples]


def _openmetrics_head(family: Family) -> str:
    """Return HELP and TYPE. In OpenMetrics the samples of a counter end in `_total`, its family does not."""
    name = family.name.removesuffix("_total") if family.type == "counter" else family.name
    kind = "unknown" if family.type == "untyped" else family.type
    return f"# HELP {name} {_escape(family.help)}\n# TYPE {name} {kind}\n"


def _openmetrics_series(family: Family) -> list[str]:
    """Return each line up to its value. `le` and `quantile` are canonical OpenMetrics numbers: 1.0, not 1."""
    suffix = "_total" if family.type == "counter" and not family.name.endswith("_total") else ""
    step = _STEP_LABELS.get(family.type)
    names = []
    for name, labels, _ in family.samples:
        written = labels
        if step is not None:
            written = tuple(
                (k, _openmetrics_float(parse_float(v)) if k == step else v) for k, v in labels
            )
        names.append(f"{name}{suffix}{_label_set(written)}")
    return names


def _openmetrics_float(value: float) -> str:
    plain = 1e-4 <= abs(value) < 1e6 or value == 0
    return repr(float(value)) if plain else format_float(value)


def _label_set(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{_escape(value)}"' for name, value in labels]) + "}"


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape(text: str) -> str:
    return _escape_help(text).replace('"', '\\"')


encode_text = _Writer(_text_head, _text_series, format_float)
"""The text format 0.0.4."""

encode_openmetrics = _Writer(
    _openmetrics_head, _openmetrics_series, _openmetrics_float, end="# EOF\n"
)
"""OpenMetrics 1.0.0, without `_created` series and units."""

TEXT = Format("text/plain", ("0.0.4",), "text/plain; version=0.0.4; charset=utf-8", encode_text)
OPENMETRICS = Format(
    "application/openmetrics-text",
    ("1.0.0", "0.0.1"),
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
    encode_openmetrics,
)
_WILDCARDS = frozenset({"*/*", "text/*"})


def negotiate(accept: str) -> Format:
    """Return the format that an Accept header prefers; text if it names neither, as browsers and curl do."""
    best, best_quality = TEXT, 0.0
    for media_type, parameters in _items(accept):
        quality = _quality(parameters)
        if quality > best_quality and (served := _served(media_type, parameters)) is not None:
            best, best_quality = served, quality
    return best


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an Accept-Encoding header allows gzip."""
    qualities = {coding: _quality(parameters) for coding, parameters in _items(accept_encoding)}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def _items(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the comma-separated items of a header with their parameters."""
    for item in header.split(","):
        name, *rest = item.split(";")
        pairs = (part.partition("=") for part in rest)
        yield (
            name.strip().lower(),
            {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs},
        )


def _quality(parameters: dict[str, str]) -> float:
    try:
        return parse_float(parameters.get("q", "1"))
    except ValueError:
        return 0.0


def _served(media_type: str, parameters: dict[str, str]) -> Format | None:
    if media_type in _WILDCARDS:
        return TEXT
    version = parameters.get("version", "")
    for known in (OPENMETRICS, TEXT):
        if media_type == known.media_type and version in {"", *known.versions}:
            return known
    return None


def recorded_lines(families: Iterable[Family], node: str, at: float) -> bytes:
    """Return the samples of one moment (Unix seconds) as lines of a recording, with the node's name."""
    return "".join(
        f"{series.of_node(name, node, labels)} {format_float(value)} {at:.3f}\n"
        for family in families
        for name, labels, value in family.samples
    ).encode()
