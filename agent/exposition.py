"""Families as the two text formats that Prometheus reads: text 0.0.4 and OpenMetrics 1.0.0, and which of them a client wants."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from collectors.numerals import format_float, parse_float
from collectors.sample import Family, Labels, Sample

_STEP_LABELS = {"histogram": "le", "summary": "quantile"}


@dataclass(frozen=True, slots=True)
class Format:
    """An exposition format: its name in a Content-Type, the versions it answers to, and how to write it."""

    media_type: str
    versions: tuple[str, ...]
    content_type: str
    encode: Callable[[Iterable[Family]], bytes]


def encode_text(families: Iterable[Family]) -> bytes:
    """The text format 0.0.4."""
    return "".join(_text_lines(families)).encode()


def encode_openmetrics(families: Iterable[Family]) -> bytes:
    """OpenMetrics 1.0.0, without `_created` series and units: a counter's samples end in `_total`, its family does not."""
    return "".join(_openmetrics_lines(families)).encode()


def _text_lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        if not family.samples:
            continue
        yield f"# HELP {family.name} {_escape_help(family.help)}\n"
        yield f"# TYPE {family.name} {family.type}\n"
        for name, labels, value in family.samples:
            yield f"{name}{_label_set(labels)} {format_float(value)}\n"


def _openmetrics_lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        if not family.samples:
            continue
        name, suffix = family.name, ""
        if family.type == "counter":
            name = name.removesuffix("_total")
            suffix = "_total"
        kind = "unknown" if family.type == "untyped" else family.type
        yield f"# HELP {name} {_escape(family.help)}\n# TYPE {name} {kind}\n"
        for sample in _canonical(family):
            written = name + suffix if suffix else sample.name
            yield f"{written}{_label_set(sample.labels)} {_openmetrics_float(sample.value)}\n"
    yield "# EOF\n"


def _canonical(family: Family) -> Iterable[Sample]:
    """Samples whose `le` and `quantile` are written as OpenMetrics wants its numbers: 1.0, not 1."""
    step = _STEP_LABELS.get(family.type)
    if step is None:
        return family.samples
    return (
        Sample(
            name,
            tuple((k, _openmetrics_float(parse_float(v)) if k == step else v) for k, v in labels),
            value,
        )
        for name, labels, value in family.samples
    )


def _openmetrics_float(value: float) -> str:
    text = format_float(value)
    return f"{text}.0" if text.lstrip("-").isdigit() else text


@lru_cache(maxsize=4096)
def _label_set(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{_escape(value)}"' for name, value in labels]) + "}"


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape(text: str) -> str:
    return _escape_help(text).replace('"', '\\"')


TEXT = Format("text/plain", ("0.0.4",), "text/plain; version=0.0.4; charset=utf-8", encode_text)
OPENMETRICS = Format(
    "application/openmetrics-text",
    ("1.0.0", "0.0.1"),
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
    encode_openmetrics,
)
_WILDCARDS = frozenset({"*/*", "text/*"})


def negotiate(accept: str) -> Format:
    """The format that an Accept header likes best. Text where it names neither: a person with a browser, curl, ..."""
    best, best_quality = TEXT, 0.0
    for media_type, parameters in _items(accept):
        quality = _quality(parameters)
        if quality > best_quality and (found := _served(media_type, parameters)) is not None:
            best, best_quality = found, quality
    return best


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header lets a reply be compressed."""
    qualities = {coding: _quality(parameters) for coding, parameters in _items(accept_encoding)}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def _items(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The comma-separated items of a header, each with its parameters."""
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
