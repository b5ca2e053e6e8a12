"""Memory bandwidth of the node and its resctrl groups as sums that never decrease while groups come and go; pods in names.

A control group's counter includes those of its monitor groups, and drops when one is removed. It is therefore split into
leaves: each monitor group, and the control group's own part. Their increases are added up.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from collectors.interface.sample import CollectorError
from collectors.shared.formats.numerals import parse_uint

K = TypeVar("K", bound=Hashable)
_PATIENCE = (
    3  # polls for which a missing counter is remembered: it may be moving to another directory
)
_UUID = "[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
# A static pod's uid is a hash without dashes, which is recognized only after the word before it.
_POD = re.compile(rf"(?:^|pod|[^0-9a-f])({_UUID})(?![0-9a-f])|pod([0-9a-f]{{32}})(?![0-9a-f])")
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class Unread(Enum):
    """Values of a counter without a number."""

    UNAVAILABLE = "Unavailable"
    """The hardware has no value, such as AMD's for a group that it does not track at the moment."""
    ERROR = "Error"
    UNASSIGNED = "Unassigned"
    """The group has no hardware counter, where counters are assigned individually."""


Reading = int | Unread
Cell = tuple[str, str]
"""An L3 domain and an event's file, such as ("0", "mbm_total_bytes")."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group with the contents of its files; missing files are not in `readings`."""

    identity: Hashable
    """Identity of its directory, which is stable if the group is renamed or moved."""
    name: str
    readings: Mapping[Cell, Reading]


@dataclass(frozen=True, slots=True)
class ControlGroup(Group):
    """A control group and its monitor groups. Its files must be read before theirs."""

    monitors: Sequence[Group] = ()


def parse_reading(text: str) -> Reading:
    """Parse a number, or the reason for its absence."""
    word = text.strip()
    try:
        return parse_uint(word)
    except ValueError:
        pass
    try:
        return Unread(word)
    except ValueError as error:
        raise CollectorError(f"resctrl: unexpected reading {word[:40]!r}") from error


def occupancy(groups: Sequence[ControlGroup], event: str) -> dict[str, int]:
    """Return a gauge of the node by domain: the sum over readable control groups."""
    by_domain: dict[str, int] = {}
    for group in groups:
        for (domain, name), reading in group.readings.items():
            if name == event and isinstance(reading, int):
                by_domain[domain] = by_domain.get(domain, 0) + reading
    return by_domain


class BandwidthSums:
    """Sums that start from 0 at the first poll: earlier counts are unknown, as groups may have been removed."""

    def __init__(self, events: frozenset[str]) -> None:
        self._events = events
        self._increases: Increases[tuple[Hashable, Cell]] = Increases()
        self._node: dict[Cell, int] = {}
        self._groups: dict[Hashable, dict[Cell, int]] = {}
        self._read: dict[Hashable, set[Cell]] = {}

    def advance(self, groups: Sequence[ControlGroup]) -> None:
        """Add the groups' increases since the last poll."""
        parents = {leaf.identity: group for group in groups for leaf in group.monitors}
        grown = self._increases.advance(dict(self._leaves(groups)))
        self._read = {}
        present = {group.identity for group in groups} | parents.keys()
        self._groups = {i: sums for i, sums in self._groups.items() if i in present}
        for (identity, cell), increase in grown.items():
            self._node[cell] = self._node.get(cell, 0) + increase
            self._credit(identity, cell, increase)
            if identity in parents:
                self._credit(parents[identity].identity, cell, increase)

    def node(self) -> dict[Cell, int]:
        """Return the node's sums of the cells that at least one group had at the last poll."""
        read = set().union(*self._read.values()) if self._read else set()
        return {cell: total for cell, total in sorted(self._node.items()) if cell in read}

    def of(self, group: Group) -> dict[Cell, int]:
        """Return a group's sums; a control group's include its monitor groups."""
        sums = self._groups.get(group.identity, {})
        return {cell: sums[cell] for cell in sorted(self._read.get(group.identity, ()))}

    def _leaves(
        self, groups: Sequence[ControlGroup]
    ) -> Iterator[tuple[tuple[Hashable, Cell], int | None]]:
        for group in groups:
            for cell in group.readings:
                if cell[1] in self._events:
                    yield (group.identity, cell), _own(group, cell)
            for leaf in group.monitors:
                for cell, reading in leaf.readings.items():
                    if cell[1] in self._events:
                        yield (leaf.identity, cell), reading if isinstance(reading, int) else None

    def _credit(self, identity: Hashable, cell: Cell, increase: int) -> None:
        sums = self._groups.setdefault(identity, {})
        sums[cell] = sums.get(cell, 0) + increase
        self._read.setdefault(identity, set()).add(cell)


def _own(group: ControlGroup, cell: Cell) -> int | None:
    """Return a control group's own part; None if a monitor group's part is unknown."""
    rest = group.readings[cell]
    if not isinstance(rest, int):
        return None
    for leaf in group.monitors:
        part = leaf.readings.get(cell)
        if part is Unread.UNASSIGNED:
            continue  # the kernel omits it from its sum too, and permanently
        if not isinstance(part, int):
            return None
        rest -= part
    # The parts were read a moment later and may exceed the whole.
    return max(0, rest)


@dataclass(slots=True)
class _Mark:
    """The position up to which a counter was counted."""

    last: int | None
    """The value counted so far; None before the first reading of a counter that existed before the agent."""
    peak: int = 0
    """The maximum reading; above `last` only after a reset."""
    missed: int = 0


class Increases(Generic[K]):
    """Follows counters by key. Values before the first poll do not count, and nothing counts twice."""

    def __init__(self) -> None:
        self._marks: dict[K, _Mark] = {}
        self._looked = False

    def advance(self, now: Mapping[K, int | None]) -> dict[K, int]:
        """Return the increase of each readable counter; None: the counter exists but cannot be read.

        A counter that appears after the first poll started at 0 in between, so its whole value is an increase.
        """
        for key in self._marks.keys() - now.keys():
            self._miss(key)
        grown: dict[K, int] = {}
        for key, value in now.items():
            mark = self._marks.get(key)
            if mark is None:
                mark = self._marks[key] = _Mark(last=0 if self._looked else None)
            mark.missed = 0
            if value is not None:
                grown[key] = _step(mark, value)
        self._looked = True
        return grown

    def _miss(self, key: K) -> None:
        mark = self._marks[key]
        mark.missed += 1
        if mark.missed >= _PATIENCE:
            del self._marks[key]


def _step(mark: _Mark, value: int) -> int:
    """Advance a mark to a reading.

    A counter that dropped by more than half was reset. One that dropped less was misread, as was one that dropped to zero and
    returned to its value: both continue from there. It is better to lose a little than to invent a spike.
    """
    if mark.last is None:
        mark.last = mark.peak = value
        return 0
    if value >= mark.peak:
        growth = value - mark.peak
        mark.last = mark.peak = value
        return growth
    if mark.last < mark.peak or value * 2 < mark.peak:
        growth = max(0, value - mark.last)
        mark.last = value
        return growth
    return 0


def pod_uid(name: str) -> str:
    """Return the pod's uid with dashes, which systemd's slices replace; empty if there is none."""
    match = _POD.search(name)
    return (match.group(1) or match.group(2)).replace("_", "-") if match else ""


def container_id(name: str) -> str:
    """Return the container's id; empty if there is none."""
    match = _CONTAINER.search(name)
    return match.group() if match else ""
