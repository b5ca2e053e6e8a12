"""How well violations find known faults: precision, recall and time to detection against labelled intervals.

Pure. A violation is right if it overlaps a fault of its node. A fault is found by the first violation of its node that overlaps
it; the time to detection is from the fault's begin to that of the violation, 0 if the node was in violation before.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from plimsoll import rfc3339
from plimsoll.text import SentenceError, shown

_DAY = 86_400.0
_MOST = 100_000
"""Faults of one file."""
_HEADER = ["node", "start", "end"]


class FaultsError(SentenceError):
    """A file of faults that cannot be read."""


class Fault(NamedTuple):
    """A time in which a node is known to be faulty (Unix seconds); `policy`: whose violations it is for, empty for all."""

    node: str
    start: float
    end: float
    policy: str = ""


class Violation(NamedTuple):
    """A time in which a node violated a policy (Unix seconds)."""

    node: str
    start: float
    end: float


@dataclass(frozen=True)
class Detection:
    """Counts of violations and faults. `delays`: seconds to detection of the faults that were found, sorted."""

    violations: int
    right: int
    faults: int
    delays: Sequence[float] = field(default_factory=tuple)
    node_days: float = 0.0

    @property
    def precision(self) -> float:
        """The share of violations that are right; NaN without any."""
        return self.right / self.violations if self.violations else math.nan

    @property
    def recall(self) -> float:
        """The share of faults that were found; NaN without any."""
        return len(self.delays) / self.faults if self.faults else math.nan

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if nothing was found."""
        if not self.right or not self.delays:
            return 0.0 if self.faults else math.nan
        return 2 * self.precision * self.recall / (self.precision + self.recall)

    @property
    def false_per_1000_node_days(self) -> float:
        """Violations that are not right, per 1,000 days of a node."""
        return (
            1000 * (self.violations - self.right) / self.node_days if self.node_days else math.nan
        )

    def delay(self, quantile: float) -> float:
        """Return a quantile of the time to detection (seconds); NaN if no fault was found."""
        return float(np.quantile(self.delays, quantile)) if self.delays else math.nan

    def __add__(self, other: "Detection") -> "Detection":
        """Return the counts of both together."""
        return Detection(
            self.violations + other.violations,
            self.right + other.right,
            self.faults + other.faults,
            sorted((*self.delays, *other.delays)),
            self.node_days + other.node_days,
        )


def detection(
    violations: Iterable[Violation], faults: Sequence[Fault], *, node_seconds: float
) -> Detection:
    """Compare violations with the faults of the same nodes and time. `node_seconds`: the length of the range times the nodes."""
    by_node: dict[str, list[Fault]] = {}
    for fault in faults:
        by_node.setdefault(fault.node, []).append(fault)
    first: dict[Fault, float] = {}
    count = right = 0
    for one in violations:
        met = [f for f in by_node.get(one.node, ()) if one.start < f.end and f.start < one.end]
        count += 1
        right += bool(met)
        for fault in met:
            first[fault] = min(first.get(fault, math.inf), one.start)
    delays = sorted(max(0.0, start - fault.start) for fault, start in first.items())
    return Detection(count, right, len({*faults}), delays, node_seconds / _DAY)


def joined(intervals: Iterable[Violation]) -> list[Violation]:
    """Return the union of intervals of each node: rules may be violated one after the other."""
    found: dict[str, list[Violation]] = {}
    for one in sorted(intervals, key=lambda each: (each.node, each.start)):
        own = found.setdefault(one.node, [])
        if own and one.start <= own[-1].end:
            own[-1] = own[-1]._replace(end=max(own[-1].end, one.end))
        else:
            own.append(one)
    return [one for own in found.values() for one in own]


def read(lines: Iterable[str]) -> list[Fault]:
    """Return the faults of a CSV file with the header `node,start,end` and perhaps `policy`; times as RFC 3339 or Unix seconds.

    An empty end: the fault lasts. Raises FaultsError.
    """
    rows = csv.reader(lines)
    try:
        header = [name.strip() for name in next(rows, [])]
        if header not in (_HEADER, [*_HEADER, "policy"]):
            raise FaultsError(f"line 1: expected the header {','.join(_HEADER)} or with ,policy")
        found = []
        for number, row in enumerate(rows, start=2):
            if row:
                found.append(
                    _fault(number, dict(zip(header, row, strict=False)), len(row), len(header))
                )
            if len(found) > _MOST:
                raise FaultsError(f"more than {_MOST:,} faults")
    except csv.Error as error:
        raise FaultsError(f"not CSV: {error}") from error
    return found


def _fault(number: int, row: Mapping[str, str], columns: int, expected: int) -> Fault:
    if columns != expected:
        raise FaultsError(f"line {number}: {columns} columns, expected {expected}")
    start = _time(number, "start", row["start"])
    end = _time(number, "end", row["end"]) if row["end"].strip() else math.inf
    if not start < end:
        raise FaultsError(f"line {number}: the fault ends before it begins")
    return Fault(row["node"].strip(), start, end, row.get("policy", "").strip())


def _time(number: int, column: str, text: str) -> float:
    text = text.strip()
    try:
        found = float(text)
    except ValueError:
        parsed = rfc3339.parse_or_none(text)
        found = math.nan if parsed is None else parsed
    if not math.isfinite(found):
        raise FaultsError(
            f"line {number}: {column} {shown(text)} is no time: write RFC 3339, such as 2026-01-31T12:00:00Z, or Unix seconds"
        )
    return found
