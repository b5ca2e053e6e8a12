"""Label sets: immutable tuples sorted by name, including the metric's name, without empty values.

A label with an empty value equals no label (https://prometheus.io/docs/concepts/data_model). All functions cache their
results, because each evaluation uses the same few label sets.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from collectors.shared.formats.numerals import format_float, parse_float

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""

NAME = "__name__"
"""Label of the metric's name."""

EMPTY: Labels = ()

_BOUNDS = {"histogram": "le", "summary": "quantile"}

_KEPT = (
    1 << 11
)  # label sets cached per function; operators cache the rest while the series stay the same


def make(pairs: Iterable[tuple[str, str]]) -> Labels:
    """Return the label set of pairs with unique names in any order; empty values are dropped."""
    return tuple(sorted(pair for pair in pairs if pair[1]))


@lru_cache(_KEPT)
def of_series(
    name: str, pairs: tuple[tuple[str, str], ...], metric_type: str = "untyped"
) -> Labels:
    """Return the label set of an exported series: the metric's name and labels in any order.

    `le` of histograms and `quantile` of summaries are spelled as Prometheus 3 stores them: `1` as `1.0`.
    """
    if (bound := _BOUNDS.get(metric_type)) is not None:
        pairs = tuple((key, _spelled(text) if key == bound else text) for key, text in pairs)
    return make((*pairs, (NAME, name)))


def _spelled(bound: str) -> str:
    try:
        number = parse_float(bound)
    except ValueError:
        return bound
    text = format_float(number + 0.0)
    return text if not text.lstrip("-").isdigit() else f"{text}.0"


def value(labels: Labels, name: str) -> str:
    """Return a label's value; empty if there is no such label."""
    for known, text in labels:
        if known == name:
            return text
    return ""


@lru_cache(_KEPT)
def without_name(labels: Labels) -> Labels:
    """Return the label set without the metric's name."""
    return tuple(pair for pair in labels if pair[0] != NAME)


@lru_cache(_KEPT)
def keep(labels: Labels, names: frozenset[str]) -> Labels:
    """Return only these labels: `by (...)` and `on (...)`."""
    return tuple(pair for pair in labels if pair[0] in names)


@lru_cache(_KEPT)
def drop(labels: Labels, names: frozenset[str]) -> Labels:
    """Return all except these labels and the metric's name: `without (...)` and `ignoring (...)`."""
    return tuple(pair for pair in labels if pair[0] not in names and pair[0] != NAME)


def replace(labels: Labels, changes: Mapping[str, str]) -> Labels:
    """Return the label set with these labels replaced; an empty value removes a label."""
    return make({**dict(labels), **changes}.items())
