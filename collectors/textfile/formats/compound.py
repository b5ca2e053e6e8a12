"""Assembles histograms and summaries from their samples, validated and in exposition order."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from collectors.interface.sample import Labels, Sample
from collectors.shared.formats.numerals import format_float, parse_float

Written = tuple[str, dict[str, str], float]
"""A parsed sample: name, labels, value."""


@dataclass(slots=True)
class _Parts:
    """The samples of one histogram or summary."""

    steps: list[tuple[float, float]] = field(default_factory=list)  # (le or quantile, value)
    sum: float | None = None
    count: float | None = None


def histogram(name: str, lines: Iterable[Written], label_names: Sequence[str]) -> Iterator[Sample]:
    """Yield buckets by ascending `le`, sum, count. Raises ValueError if the samples are not a valid histogram."""
    for key, parts in _groups(name, lines, label_names, step=(f"{name}_bucket", "le")).items():
        _complete(parts)
        yield from _printed(name, f"{name}_bucket", "le", key, parts)


def summary(name: str, lines: Iterable[Written], label_names: Sequence[str]) -> Iterator[Sample]:
    """Yield quantiles in ascending order, sum, count. Raises ValueError if the samples are not a valid summary."""
    for key, parts in _groups(name, lines, label_names, step=(name, "quantile")).items():
        yield from _printed(name, name, "quantile", key, parts)


def _groups(
    name: str, lines: Iterable[Written], label_names: Sequence[str], *, step: tuple[str, str]
) -> dict[Labels, _Parts]:
    step_name, step_label = step
    names = [label for label in label_names if label != step_label]
    groups: dict[Labels, _Parts] = {}
    for line, labels, value in lines:
        parts = groups.setdefault(tuple((n, labels.get(n, "")) for n in names), _Parts())
        if (line == step_name) != (step_label in labels):
            raise ValueError(f"a line with the label {step_label} missing or misplaced")
        if line == step_name:
            parts.steps.append((_bound(labels[step_label], step_label), value))
        elif line == f"{name}_sum" and parts.sum is None:
            parts.sum = value
        elif line == f"{name}_count" and parts.count is None:
            parts.count = value
        else:
            raise ValueError("a line that is no part of it, or appears twice with the same labels")
    return groups


def _bound(text: str, label: str) -> float:
    try:
        return parse_float(text)
    except ValueError:
        raise ValueError(f"the label {label} is not a number") from None


def _complete(parts: _Parts) -> None:
    """Fill in the +Inf bucket or the count, which are equal by definition; one of them is required."""
    infinite = [value for step, value in parts.steps if step == math.inf]
    if parts.count is not None and not infinite:
        parts.steps.append((math.inf, parts.count))
    elif parts.count is None and infinite:
        parts.count = infinite[0]
    elif parts.count is None:
        raise ValueError("a histogram without _count and without a +Inf bucket")


def _printed(
    name: str, step_name: str, step_label: str, key: Labels, parts: _Parts
) -> Iterator[Sample]:
    for step, value in sorted(parts.steps):
        yield Sample(step_name, (*key, (step_label, format_float(step))), value)
    if parts.sum is not None:
        yield Sample(f"{name}_sum", key, parts.sum)
    if parts.count is not None:
        yield Sample(f"{name}_count", key, parts.count)
