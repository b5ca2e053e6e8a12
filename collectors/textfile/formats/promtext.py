"""A strict parser of the Prometheus text format 0.0.4, slightly stricter than Go's.

prometheus_client's parser is documented to be lax: it accepts `1_0`, second TYPE lines, samples before their TYPE,
duplicates and truncated files. Here a file is valid or not: the first error raises PromtextError. Its text is logged, so it
has the line number but never quotes the line: the file may be one that its writer was not allowed to read.

The repository has one other grammar, `plimsoll.recording.series`, for what was recorded: it accepts timestamps, exemplars and any
escape, all of which a file here must not have, because the agent exports it as its own.

Stricter than Go's expfmt where accepting would lose or invent data: duplicate series, invalid UTF-8 except in comments,
labels that begin with `__`, timestamps, gauge histograms, buckets without `le`, quantiles without `quantile`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from collectors.interface.refusal import CollectorConfigError
from collectors.interface.sample import Labels, MetricType, Sample
from collectors.shared.formats.numerals import parse_float
from collectors.textfile.formats import compound
from collectors.textfile.formats.compound import Written


class PromtextError(CollectorConfigError):
    """Text is not in the format; the message has the line number and the error."""


class LabelsError(PromtextError):
    """The samples have more labels than may be taken."""


class _LineError(ValueError):
    """The error of a line, with a reason of its own."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TextFamily:
    """A family of a file; `help` is None if the file has none."""

    name: str
    type: MetricType
    help: str | None
    samples: tuple[Sample, ...]


@dataclass(slots=True)
class _Draft:
    """A family during parsing; labels of samples are still raw text."""

    name: str
    type: MetricType | None = None
    help: str | None = None
    samples: list[Written] = field(default_factory=list)


_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*+"
_BLANK = r"[ \t]*+"
_PAIR = rf'{_BLANK}(?:{_LABEL}|"{_LABEL}"){_BLANK}={_BLANK}"(?:[^"\\]|\\["\\n])*+"{_BLANK}'
_PAIRS = rf"(?:{_PAIR}(?:,{_PAIR})*+(?:,{_BLANK})?|{_BLANK})"
_SAMPLE = re.compile(
    rf"{_BLANK}(?:"
    rf"(?P<name>{_NAME}){_BLANK}(?:\{{(?P<labels>{_PAIRS})\}}{_BLANK})?"
    rf'|\{{{_BLANK}"(?P<quoted>{_NAME})"{_BLANK}(?:,(?P<rest>{_PAIRS}))?\}}{_BLANK}'
    r")(?P<value>[^ \t{]\S*+)?(?P<after>.*)",
    re.DOTALL,
)
_PAIR_PARTS = re.compile(rf'({_LABEL})"?{_BLANK}={_BLANK}"((?:[^"\\]|\\["\\n])*+)"')
_META = re.compile(rf"{_BLANK}#{_BLANK}(HELP|TYPE)(?:[ \t]{_BLANK}(.*))?", re.DOTALL)
_META_NAME = re.compile(rf'(?:({_NAME})|"({_NAME})")(?:$|[ \t]{_BLANK}(.*))', re.DOTALL)
_TIMESTAMP = re.compile(r"[ \t]+[+-]?[0-9]+[ \t]*", re.ASCII)
_BROKEN = re.compile("[\\udc80-\\udcff]")  # invalid UTF-8 after surrogateescape
_ESCAPE = re.compile(r'\\(["\\n]?)')
_TYPES: dict[str, MetricType] = {
    "counter": "counter",
    "gauge": "gauge",
    "histogram": "histogram",
    "summary": "summary",
    "untyped": "untyped",
}
# Suffixes of names that belong to a family of the type.
_SUFFIXES: dict[MetricType, tuple[str, ...]] = {
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
}


MOST_LABELS = 10
"""Labels per sample, on average over the maximum number of samples."""


def parse(
    data: bytes, *, most_samples: int = 1_000_000, most_labels: int | None = None
) -> tuple[TextFamily, ...]:
    """Return the families of a file in order. Raises PromtextError if it is invalid, or at its first line that exceeds a limit.

    `most_labels`: of all samples together, by default `MOST_LABELS` per sample.
    """
    text = _decode(data)
    _refuse_truncated(text)
    if most_labels is None:
        most_labels = MOST_LABELS * most_samples
    drafts: dict[str, _Draft] = {}
    samples = labels = 0
    for number, line in enumerate(_lines(text), start=1):
        try:
            parsed = _line(line, drafts)
        except ValueError as error:
            reason = error.reason if isinstance(error, _LineError) else "syntax"
            raise PromtextError(reason, f"line {number}: {error}") from error
        if parsed is not None:
            samples += 1
            labels += parsed
        # A family may have a HELP only, and takes as much memory as a sample.
        if max(samples, len(drafts)) > most_samples:
            raise PromtextError("samples", f"line {number}: more than {most_samples} samples")
        if labels > most_labels:
            raise LabelsError("samples", f"line {number}: more than {most_labels} labels")
    _refuse_labels(drafts.values(), most_labels)
    families = tuple(_finish(draft) for draft in drafts.values() if draft.samples)
    _refuse_duplicates(families)
    return families


def identity(sample: Sample) -> tuple[str, Labels]:
    """Return the identity of a series: an empty label equals no label."""
    return sample.name, tuple(pair for pair in sample.labels if pair[1])


def _decode(data: bytes) -> str:
    """Decode a file. Comments may have any encoding, since they are not exported."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "surrogateescape")
        for line in filter(_BROKEN.search, text.split("\n")):
            if not line.lstrip(" \t").startswith("#") or _META.fullmatch(line):
                raise PromtextError("encoding", f"byte {error.start}: not UTF-8") from error
        return text


def _lines(text: str) -> Iterator[str]:
    """Yield each line that ends with a newline; a list of all would take many times the text's memory."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1


def _refuse_truncated(text: str) -> None:
    if text[text.rfind("\n") + 1 :].strip(" \t"):
        number = text.count("\n") + 1
        raise PromtextError("truncated", f"line {number}: the file breaks off without a newline")


def _line(line: str, drafts: dict[str, _Draft]) -> int | None:
    """Parse a line. Returns the number of labels of a sample; None for any other line."""
    start = line.lstrip(" \t")
    if not start:
        return None
    if start.startswith("#"):
        _comment(line, drafts)
        return None
    return _sample(line, drafts)


def _comment(line: str, drafts: dict[str, _Draft]) -> None:
    if (match := _META.fullmatch(line)) is None or not match.group(2):
        return
    keyword, rest = match.groups()
    if (named := _META_NAME.fullmatch(rest)) is None:
        raise ValueError(f"no metric name after {keyword}")
    if named.group(3) is None:
        return
    draft = _draft(named.group(1) or named.group(2), drafts)
    if not (text := named.group(3)):
        return
    if keyword == "HELP":
        if draft.help is not None:
            raise ValueError("second HELP for a metric")
        draft.help = _unescape(text)
    else:
        if draft.type is not None:
            raise ValueError("second TYPE for a metric, or TYPE after its samples")
        kind = text.lower().replace("\\", "")  # expfmt drops backslashes here
        if kind not in _TYPES:
            raise ValueError("unknown type")
        draft.type = _TYPES[kind]


def _sample(line: str, drafts: dict[str, _Draft]) -> int:
    match = _SAMPLE.fullmatch(line)
    if match is None or not match["value"]:
        raise ValueError("not a sample")
    value, after = _number(match["value"]), match["after"]
    if after:
        if _TIMESTAMP.fullmatch(after):
            raise _LineError("timestamp", "a timestamp")
        raise ValueError("something after the value")
    name = match["name"] or match["quoted"]
    draft = _draft(name, drafts)
    if draft.type is None:
        draft.type = "untyped"
    labels = _labels(match["labels"] or match["rest"] or "")
    draft.samples.append((name, labels, value))
    return len(labels)


def _number(text: str) -> float:
    try:
        return parse_float(text)
    except ValueError:
        raise ValueError("not a number, or out of range") from None


def _draft(name: str, drafts: dict[str, _Draft]) -> _Draft:
    """Return the family of a name: `x_sum` is a family of its own unless x is a summary or a histogram."""
    if (known := drafts.get(name)) is not None:
        return known
    base, underscore, suffix = name.rpartition("_")
    owner = drafts.get(base)
    if owner is not None and owner.type and underscore + suffix in _SUFFIXES.get(owner.type, ()):
        return owner
    return drafts.setdefault(name, _Draft(name))


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for name, value in _PAIR_PARTS.findall(text):
        if name.startswith("__"):
            raise _LineError("label", "a reserved label: it begins with __")
        if name in labels:
            raise _LineError("label", "a label appears twice")
        labels[name] = _unescape(value) if "\\" in value else value
    return labels


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if not match.group(1):
            raise ValueError("invalid escape sequence")
        return "\n" if match.group(1) == "n" else match.group(1)

    return _ESCAPE.sub(replace, text)


def _refuse_labels(drafts: Iterable[_Draft], most: int) -> None:
    """Limit labels: each sample gets the labels of all others in its family, so a few long lines become many labels."""
    for draft in drafts:
        most -= len(draft.samples) * len({n for _, labels, _ in draft.samples for n in labels})
    if most < 0:
        raise LabelsError("samples", "its samples have too many labels")


def _finish(draft: _Draft) -> TextFamily:
    kind = draft.type or "untyped"
    names = sorted({name for _, labels, _ in draft.samples for name in labels})
    if kind in {"histogram", "summary"}:
        return TextFamily(draft.name, kind, draft.help, _compound(draft, kind, names))
    # All samples of a family get the same label names, missing ones empty, as in node_exporter.
    samples = tuple(
        Sample(name, tuple((n, labels.get(n, "")) for n in names), value)
        for name, labels, value in draft.samples
    )
    return TextFamily(draft.name, kind, draft.help, samples)


def _compound(draft: _Draft, kind: MetricType, names: list[str]) -> tuple[Sample, ...]:
    try:
        arranged = compound.histogram if kind == "histogram" else compound.summary
        return tuple(arranged(draft.name, draft.samples, names))
    except ValueError as error:
        raise PromtextError("histogram", f"a {kind}: {error}") from error


def _refuse_duplicates(families: Iterable[TextFamily]) -> None:
    seen: set[tuple[str, Labels]] = set()
    for family in families:
        for sample in family.samples:
            if (key := identity(sample)) in seen:
                raise PromtextError("duplicate", "a series appears twice")
            seen.add(key)
