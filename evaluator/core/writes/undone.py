"""Notes that another client undoes writes of nodes, and delays the next write: two writers of one field would write without end.

A write is undone if a node needs it again although it succeeded. The first time it is repeated at once, as a person may have
removed a label by mistake. Then the delay grows to five minutes, until a write holds for ten minutes. Pure.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from evaluator.core.model.node import Node
from evaluator.core.policy_status import listed
from plimsoll.backoff import Backoff
from plimsoll.text import printable

_FIRST, _LONGEST = 1.0, 300.0
"""Seconds of delay after the second undone write, and at most."""
_HOLDS = 600.0
"""Seconds after which a write that was not undone holds."""
_SAID = 3
"""Undone writes of a node in a row that are a problem."""
_MOST_SENTENCES = 5
"""Fields that the problems of a policy name; the others are left out."""


class NodeWrite(Protocol):
    """A write of one node."""

    @property
    def shown(self) -> str:
        """What the node has afterwards, for the log."""
        ...

    @property
    def fields(self) -> frozenset[str]:
        """What the node lacks or has otherwise: label keys, taint keys, types of conditions, keys of annotations."""
        ...


class Undone(NamedTuple):
    """A field of a node that another client takes away or changes after each write. `manager`: it, if known."""

    field: str
    node: str
    manager: str = ""


@dataclass(slots=True)
class _Written:
    """The last write of a node that succeeded. Times are in seconds, monotonic."""

    backoff: Backoff
    shown: str = ""
    node: Node | None = None
    """As the write left it."""
    at: float = 0.0
    times: int = 0
    """Undone writes in a row."""
    seen: bool = False
    """Whether this write is known to be undone."""
    until: float = 0.0
    fields: frozenset[str] = frozenset()
    manager: str = ""


def unknown(_node: Node) -> str:
    """Return no field manager: a node does not show who removed something."""
    return ""


class UndoneWrites:
    """The undone writes of one writer. `latest` changes with `changed`, which its reader resets."""

    def __init__(
        self,
        jitter: Callable[[], float],
        counted: Callable[[], None],
        manager_of: Callable[[Node], str] = unknown,
    ) -> None:
        """`jitter` returns a float in [0, 1); `counted` counts an undone write; `manager_of`: the other field manager."""
        self._jitter = jitter
        self._counted = counted
        self._manager_of = manager_of
        self._written: dict[str, _Written] = {}
        self.changed = False

    @property
    def latest(self) -> Sequence[Undone]:
        """The fields of nodes that another client takes away again and again, sorted."""
        return sorted(
            Undone(field, name, written.manager)
            for name, written in self._written.items()
            if written.times >= _SAID
            for field in written.fields
        )

    def wrote(self, name: str, write: NodeWrite, node: Node, now: float) -> float | None:
        """A write succeeded: `node` is the result. Return after how many seconds to look at it again, if at all."""
        known = self._written.get(name)
        if known is None or now - known.at > _HOLDS:
            known = _Written(Backoff(self._jitter, first=_FIRST, longest=_LONGEST))
            self._written[name] = known
        elif known.shown != write.shown and known.times:
            self.changed, known.times, known.fields = True, 0, frozenset()
        known.shown, known.node, known.at, known.seen = write.shown, node, now, False
        return _HOLDS if known.times else None

    def note(self, name: str, node: Node, write: NodeWrite, now: float) -> float | None:
        """Return the delay of a write that a node needs, as it is known now, if that is newly undone; else None."""
        known = self._known(name, write)
        if known is None or known.seen or (known.node and node.older_than(known.node)):
            return None
        self._counted()
        known.seen = self.changed = True
        known.times += 1
        known.fields |= write.fields
        known.manager = self._manager_of(node) or known.manager
        delay = known.backoff.next() if known.times > 1 else 0.0
        known.until = now + delay
        return delay

    def is_delayed(self, name: str, write: NodeWrite, now: float) -> bool:
        """Return whether a write waits, as it was undone."""
        known = self._known(name, write)
        return known is not None and known.seen and known.until > now

    def _known(self, name: str, write: NodeWrite) -> _Written | None:
        """Return the last write of a node if it was the same."""
        known = self._written.get(name)
        return known if known is not None and known.shown == write.shown else None

    def holds(self, name: str, now: float, *, exists: bool) -> None:
        """A node needs no write, or does not exist: forget it if its last write is old."""
        known = self._written.get(name)
        if known is not None and (not exists or now - known.at >= _HOLDS):
            del self._written[name]
            self.changed = self.changed or bool(known.times)

    def clear(self) -> None:
        """Forget all writes: another replica may have written since."""
        self.changed = any(known.times for known in self._written.values())
        self._written.clear()


def problems(what: str, undone: Iterable[Undone], total: int) -> tuple[str, ...]:
    """Return a sentence for each field of a policy that is undone, such as a label. `total`: the nodes of the cluster."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for one in undone:
        nodes.setdefault((one.field, one.manager), []).append(one.node)
    return tuple(
        f"{what} {field} on {listed(names, total)} is taken away or changed by "
        f"{f'field manager {printable(manager)}' if manager else 'another client'} after each write: written again "
        "after up to 5 minutes"
        for (field, manager), names in [*nodes.items()][:_MOST_SENTENCES]
    )
