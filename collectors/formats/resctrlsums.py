"""Memory bandwidth of the node and of its resctrl groups as sums that never fall, whatever becomes of the groups.

A control group's counter includes those of its monitor groups, and drops when one of them goes away. So it is taken
apart into leaves: each monitor group, and what the control group has for itself. Their increases are added up.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from collectors.base.sample import CollectorError
from collectors.formats.monotonic import Increases
from collectors.formats.numerals import parse_uint


class Unread(Enum):
    """What the kernel says where it has no number."""

    UNAVAILABLE = "Unavailable"
    """The hardware has no answer, as AMD's has none for a group that it does not track at the moment."""
    ERROR = "Error"
    UNASSIGNED = "Unassigned"
    """The group has no hardware counter, where counters are assigned one by one."""


Reading = int | Unread
Cell = tuple[str, str]
"""An L3 domain and the name of an event's file, such as ("0", "mbm_total_bytes")."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group with what its files said; a file that was gone is not in `readings`."""

    identity: Hashable
    """Of its directory: it stays when the group is renamed or moved, and no other group gets it."""
    name: str
    readings: Mapping[Cell, Reading]


@dataclass(frozen=True, slots=True)
class ControlGroup(Group):
    """A control group and the monitor groups in it. Its files have to be read before theirs."""

    monitors: Sequence[Group] = ()


def parse_reading(text: str) -> Reading:
    """A number, or why there is none."""
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
    """A gauge of the node by domain: the sum over the control groups that could be read."""
    found: dict[str, int] = {}
    for group in groups:
        for (domain, name), reading in group.readings.items():
            if name == event and isinstance(reading, int):
                found[domain] = found.get(domain, 0) + reading
    return found


class BandwidthSums:
    """The sums, from 0 at the first look: what had been counted before is not known, as groups may have gone."""

    def __init__(self, events: frozenset[str]) -> None:
        self._events = events
        self._increases: Increases[tuple[Hashable, Cell]] = Increases()
        self._node: dict[Cell, int] = {}
        self._groups: dict[Hashable, dict[Cell, int]] = {}
        self._read: dict[Hashable, set[Cell]] = {}

    def advance(self, groups: Sequence[ControlGroup]) -> None:
        """Add what the groups have grown by since the last look."""
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
        """The sums of the node, of those cells that at least one group had a reading for at the last look."""
        read = set().union(*self._read.values()) if self._read else set()
        return {cell: total for cell, total in sorted(self._node.items()) if cell in read}

    def of(self, group: Group) -> dict[Cell, int]:
        """The sums of a group, for a control group with those of its monitor groups."""
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
    """What a control group counted for itself; None if a monitor group's part in its number is unknown."""
    rest = group.readings[cell]
    if not isinstance(rest, int):
        return None
    for leaf in group.monitors:
        part = leaf.readings.get(cell)
        if part is Unread.UNASSIGNED:
            continue  # the kernel left it out of its sum as well, and not just for a moment
        if not isinstance(part, int):
            return None
        rest -= part
    # The parts were read a moment later and may have grown past the whole.
    return max(0, rest)
