"""Merges text files that have the same metric into one family; the first file wins a conflict."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collectors.interface.sample import Family, Labels, MetricType, Sample
from collectors.textfile.formats.promtext import TextFamily, identity

Series = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A family of a file was left out, with the reason: a word of `refusal.REASONS`, and a sentence."""

    file: str
    metric: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """A file's part of a family."""

    file: str
    help: str | None
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class MergedFamily(Family):
    """A family with the files of its samples."""

    parts: tuple[Part, ...]


@dataclass(slots=True)
class _Draft:
    type: MetricType
    parts: list[Part] = field(default_factory=list)

    @property
    def help(self) -> str | None:
        return next((part.help for part in self.parts if part.help is not None), None)


def merge(
    files: Mapping[str, Iterable[TextFamily]], *, reserved: frozenset[str]
) -> tuple[list[MergedFamily], list[Conflict]]:
    """Return the merged families in order, and what was left out. `reserved`: names that no file may use."""
    drafts: dict[str, _Draft] = {}
    taken: set[tuple[str, Labels]] = set()
    conflicts: list[Conflict] = []
    for file, families in files.items():
        for family in families:
            draft = drafts.get(family.name)
            keys = {identity(sample) for sample in family.samples}
            why = _disagreement(draft, family) if draft else None
            if family.name in reserved:
                why = "builtin", "the name is the collector's own"
            elif why is None and not taken.isdisjoint(keys):
                why = "series", "another file has a series of the same name and labels"
            if why is not None:
                conflicts.append(Conflict(file, family.name, *why))
                continue
            taken |= keys
            draft = draft or drafts.setdefault(family.name, _Draft(family.type))
            draft.parts.append(Part(file, family.help, family.samples))
    return [_family(name, draft) for name, draft in drafts.items()], conflicts


def beside(
    families: Iterable[Family], others: Mapping[str, Family]
) -> tuple[list[Family], list[Conflict]]:
    """Return the families without what conflicts with others that take precedence, and what was left out."""
    kept: list[Family] = []
    conflicts: list[Conflict] = []
    for family in families:
        other = others.get(family.name)
        if other is None or not isinstance(family, MergedFamily):
            kept.append(family)
            continue
        taken = {_series(sample) for sample in other.samples}
        samples: list[Sample] = []
        for part in family.parts:
            if text := _clash(family, part, other, taken):
                conflicts.append(Conflict(part.file, family.name, "builtin", text))
            else:
                samples.extend(part.samples)
        if samples:
            kept.append(Family(family.name, family.type, other.help, tuple(samples)))
    return kept, conflicts


def _disagreement(draft: _Draft, family: TextFamily) -> tuple[str, str] | None:
    first = draft.parts[0].file
    if draft.type != family.type:
        return "type", f"TYPE is {family.type} here and {draft.type} in {first}"
    if family.help is not None and draft.help not in {None, family.help}:
        return "help", f"HELP is not that of {first}"
    return None


def _clash(family: Family, part: Part, other: Family, taken: set[Series]) -> str:
    if family.type != other.type:
        return f"TYPE is {family.type} here and {other.type} in what is built in"
    if part.help not in {None, other.help}:
        return "HELP is not that of what is built in"
    if not taken.isdisjoint(map(_series, part.samples)):
        return "a series of the same name and labels is built in"
    return ""


def _series(sample: Sample) -> Series:
    """Return the identity of a series, independent of the order of labels."""
    return sample.name, frozenset(pair for pair in sample.labels if pair[1])


def _family(name: str, draft: _Draft) -> MergedFamily:
    described = draft.help
    if described is None:
        described = f"Metric read from {', '.join(part.file for part in draft.parts)}"
    samples = tuple(sample for part in draft.parts for sample in part.samples)
    return MergedFamily(name, draft.type, described, samples, tuple(draft.parts))
