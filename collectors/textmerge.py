"""Several text files that name the same metric, put into one family; where they disagree, the first file wins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collectors.promtext import TextFamily, identity
from collectors.sample import Family, Labels, MetricType, Sample


@dataclass(frozen=True, slots=True)
class Conflict:
    """A family of a file that was left out, and why."""

    file: str
    metric: str
    reason: str


@dataclass(slots=True)
class _Merged:
    type: MetricType
    help: str | None
    samples: list[Sample] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def merge(
    files: Mapping[str, Iterable[TextFamily]], *, reserved: frozenset[str]
) -> tuple[list[Family], list[Conflict]]:
    """The families of all files, in their order, and what had to be left out. `reserved` names are nobody's to use."""
    merged: dict[str, _Merged] = {}
    seen: set[tuple[str, Labels]] = set()
    conflicts: list[Conflict] = []
    for file, families in files.items():
        for family in families:
            known = merged.get(family.name)
            keys = {identity(sample) for sample in family.samples}
            reason = _disagreement(known, family) if known else ""
            if family.name in reserved:
                reason = "the name is the collector's own"
            elif not seen.isdisjoint(keys):
                reason = "another file has a series of the same name and labels"
            if reason:
                conflicts.append(Conflict(file, family.name, reason))
                continue
            seen |= keys
            target = merged.setdefault(family.name, _Merged(family.type, family.help))
            target.help = family.help if target.help is None else target.help
            target.samples.extend(family.samples)
            target.files.append(file)
    return [_family(name, entry) for name, entry in merged.items()], conflicts


def _disagreement(known: _Merged, family: TextFamily) -> str:
    if known.type != family.type:
        return f"TYPE is {family.type} here and {known.type} in {known.files[0]}"
    if None not in {known.help, family.help} and known.help != family.help:
        return f"HELP is not that of {known.files[0]}"
    return ""


def _family(name: str, entry: _Merged) -> Family:
    described = entry.help
    if described is None:
        described = f"Metric read from {', '.join(entry.files)}"
    return Family(name, entry.type, described, tuple(entry.samples))
