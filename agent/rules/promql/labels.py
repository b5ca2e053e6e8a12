"""Label sets as PromQL sees them: immutable, sorted by name, the metric's name among them, and no label without a value.

A label with an empty value is the same as none (prometheus.io/docs/concepts/data_model). Everything here is remembered:
the same few label sets pass by at each evaluation.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""

NAME = "__name__"
"""The label that holds a metric's name."""

EMPTY: Labels = ()

_KEPT = (
    1 << 11
)  # label sets that are remembered, by each function: operators remember the rest while series stay


def make(pairs: Iterable[tuple[str, str]]) -> Labels:
    """A label set of pairs in any order, each name once; those with an empty value are left out."""
    return tuple(sorted(pair for pair in pairs if pair[1]))


@lru_cache(_KEPT)
def of_series(name: str, pairs: tuple[tuple[str, str], ...]) -> Labels:
    """The label set of a series as exporters print it: a metric's name, and its labels in any order."""
    return make((*pairs, (NAME, name)))


def value(labels: Labels, name: str) -> str:
    """A label's value; empty where there is none."""
    for known, found in labels:
        if known == name:
            return found
    return ""


@lru_cache(_KEPT)
def without_name(labels: Labels) -> Labels:
    """All but the metric's name, as most functions and operators answer."""
    return tuple(pair for pair in labels if pair[0] != NAME)


@lru_cache(_KEPT)
def keep(labels: Labels, names: frozenset[str]) -> Labels:
    """Only these labels: `by (...)` and `on (...)`."""
    return tuple(pair for pair in labels if pair[0] in names)


@lru_cache(_KEPT)
def drop(labels: Labels, names: frozenset[str]) -> Labels:
    """All but these labels and the metric's name: `without (...)` and `ignoring (...)`."""
    return tuple(pair for pair in labels if pair[0] not in names and pair[0] != NAME)


def replace(labels: Labels, changes: Mapping[str, str]) -> Labels:
    """With these labels set; an empty value takes a label away."""
    return make({**dict(labels), **changes}.items())
