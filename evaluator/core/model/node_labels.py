"""Compares a node's labels with the desired ones, as server-side apply requests.

Labels applied by the field manager `plimsoll` are ours. One apply per differing node lists every desired label; the
API server removes our other labels.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FIELD_MANAGER = "plimsoll"
PREFIX = "telemetry.aware.scheduling."

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


def label_key(policy: str, name: str) -> str:
    """Return the node label key of a labeling rule's label `name`, as TAS spells it."""
    return f"{PREFIX}{policy}/{name}"


def key_flaw(key: str) -> str | None:
    """Return the error of a label key; None if it is valid."""
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
    """Return the error of a label value; None if it is valid."""
    if value and not _NAME.fullmatch(value):
        return (
            f"{value[:70]!r} is not a label value (at most 63 letters, digits, '-', '_' or '.', "
            "a letter or digit at both ends)"
        )
    return None


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """The labels of one node as last seen; `owned` are the keys that our field manager applied.

    `owners`: other field managers with keys that they own.
    """

    uid: str
    labels: Mapping[str, str]
    owned: frozenset[str]
    owners: Sequence[tuple[str, Sequence[str]]] = field(default=(), compare=False)

    def manager(self, key: str) -> str:
        """Return the other field manager that owns a label; empty if none is known."""
        return next((name for name, keys in self.owners if key in keys), "")

    @property
    def ours(self) -> dict[str, str]:
        """The labels that our field manager owns."""
        return {key: self.labels[key] for key in self.owned if key in self.labels}


@dataclass(frozen=True, slots=True)
class LabelApply:
    """One apply request: `labels` are all labels that we own on the node afterwards."""

    node: str
    uid: str
    labels: Mapping[str, str]
    fields: frozenset[str] = field(default=frozenset(), compare=False)
    """The keys that the node lacks or has otherwise."""

    @property
    def shown(self) -> str:
        """The labels, for the log."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.labels.items())) or "none"


@dataclass(frozen=True, slots=True)
class LabelConflict:
    """A desired label that another field manager owns with another value. `manager`: it, if known."""

    node: str
    key: str
    value: str
    theirs: str
    manager: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class LabelComparison:
    """The apply request for one node (None: nothing to write), and its conflicts."""

    apply: LabelApply | None
    conflicts: tuple[LabelConflict, ...]


def compare(node: str, seen: NodeLabels, desired: Mapping[str, str]) -> LabelComparison:
    """Return the comparison for one node.

    Desired labels owned by another manager with another value are left out and reported as conflicts.
    """
    current, owned = seen.labels, seen.owned
    conflicts = tuple(
        LabelConflict(node, key, value, current[key], seen.manager(key))
        for key, value in desired.items()
        if key in current and current[key] != value and key not in owned
    )
    conflicting = {conflict.key for conflict in conflicts}
    ours = {key: value for key, value in desired.items() if key not in conflicting}
    agrees = {key: current.get(key) for key in owned} == ours
    if agrees:
        return LabelComparison(None, conflicts)
    fields = frozenset(k for k, v in ours.items() if k not in owned or current.get(k) != v)
    return LabelComparison(LabelApply(node, seen.uid, ours, fields), conflicts)
