"""Which node labels are ours, which are wanted, and what has to be written: a plan, never a patch of the moment.

Ownership is server-side apply's: what the field manager `plimsoll` applied is ours, everything else is somebody's. So a
plan is one apply per node that differs, with every label wanted there, and the API server removes the rest of ours.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

FIELD_MANAGER = "plimsoll"
PREFIX = "telemetry.aware.scheduling."

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


def wanted_key(policy: str, name: str) -> str:
    """The key under which a labeling rule's label `name` stands on a node, as TAS spells it."""
    return f"{PREFIX}{policy}/{name}"


def key_flaw(key: str) -> str | None:
    """What is wrong with a label key; None if the API server would take it."""
    prefix, separator, name = key.rpartition("/")
    if not _NAME.fullmatch(name):
        return (
            f"{name[:70]!r} is not a label name (1 to 63 letters, digits, '-', '_' or '.', "
            "a letter or digit at both ends)"
        )
    if separator and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return f"{prefix[:70]!r} is not a label prefix (a lower-case DNS subdomain of at most 253)"
    return None


def value_flaw(value: str) -> str | None:
    """What is wrong with a label value; None if the API server would take it."""
    if value and not _NAME.fullmatch(value):
        return (
            f"{value[:70]!r} is not a label value (at most 63 letters, digits, '-', '_' or '.', "
            "a letter or digit at both ends)"
        )
    return None


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """The labels of one node as last seen; `owned` are the keys that our field manager applied."""

    uid: str
    labels: Mapping[str, str]
    owned: frozenset[str]

    @property
    def ours(self) -> dict[str, str]:
        """Those labels that are ours."""
        return {key: self.labels[key] for key in self.owned if key in self.labels}


@dataclass(frozen=True, slots=True)
class LabelApply:
    """One write: after it, `labels` are all the labels of ours on that node."""

    node: str
    uid: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LabelConflict:
    """A label that is wanted on a node but belongs to somebody else there, with another value."""

    node: str
    key: str
    value: str
    theirs: str


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """What has to be written, and what cannot be."""

    applies: tuple[LabelApply, ...]
    conflicts: tuple[LabelConflict, ...]


@dataclass(frozen=True, slots=True)
class LabelComparison:
    """The same for one node: what has to be written there (None: nothing), and what cannot be."""

    apply: LabelApply | None
    conflicts: tuple[LabelConflict, ...]


def plan(nodes: Mapping[str, NodeLabels], wanted: Mapping[str, Mapping[str, str]]) -> LabelChanges:
    """The writes that turn the labels seen into the labels wanted; empty when they agree. `labelplan` keeps it up to date."""
    looks = [look(name, seen, wanted.get(name, {})) for name, seen in nodes.items()]
    return LabelChanges(
        tuple(look.apply for look in looks if look.apply is not None),
        tuple(conflict for look in looks for conflict in look.conflicts),
    )


def look(node: str, seen: NodeLabels, wanted: Mapping[str, str]) -> LabelComparison:
    """The part of a plan that is about one node.

    A wanted key that another owner holds with another value is left out and reported; the rest of that node is written.
    """
    there, owned = seen.labels, seen.owned
    conflicts = tuple(
        LabelConflict(node, key, value, there[key])
        for key, value in wanted.items()
        if key in there and there[key] != value and key not in owned
    )
    taken = {conflict.key for conflict in conflicts}
    ours = {key: value for key, value in wanted.items() if key not in taken}
    agrees = {key: there.get(key) for key in owned} == ours
    return LabelComparison(None if agrees else LabelApply(node, seen.uid, ours), conflicts)
