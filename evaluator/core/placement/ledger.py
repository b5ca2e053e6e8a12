"""The pods that were placed on nodes lately, as arrays, so that thousands of them are weighed in one step.

A pod counts once, by its UID: from the answer that recommended a node for it, on the node it was bound to from then on, until
it is gone or `forget` drops it. An answer that no binding confirms counts for a second.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex, Positions
from evaluator.core.model.resources import NOTHING, RESOURCES, ResourceVector

UNCONFIRMED = 1.0
"""Seconds for which an answer counts that no binding confirmed."""
MOST_PODS = 50_000
"""Pods that are kept; of more, the earliest are dropped."""
MOST_SHARED = 16
"""Nodes of equal score among which an answer is divided; with more, it counts nowhere until the pod is bound."""


_SPARE = 64
"""Policies without pods that are tolerated beyond twice the number of pods."""


class PlacedPod(NamedTuple):
    """A pod of a policy, and what it requests."""

    uid: str
    policy: PolicyKey
    requests: ResourceVector = NOTHING


class Weighed(NamedTuple):
    """Entries of the ledger; arrays of shape (entries,), `requests` of shape (entries, resources).

    `nodes`: position of the node, -1 if it is not among the nodes. `policies`: index into `Ledger.policies`. `at`: seconds.
    `shares`: which part of the pod counts on this node.
    """

    nodes: Positions
    policies: Positions
    at: Floats
    shares: Floats
    requests: Floats

    def on_each(self, nodes: int) -> "Weighed":
        """Return the first entry on each of so many nodes."""
        first = np.zeros(nodes, np.intp)
        return Weighed(
            np.arange(nodes),
            self.policies[first],
            self.at[first],
            self.shares[first],
            self.requests[first],
        )


@dataclass(slots=True)
class _Table:
    """Columns of the entries; unused rows have the policy -1."""

    nodes: Positions
    policies: Positions
    at: Floats
    shares: Floats
    requests: Floats
    names: list[str] = field(default_factory=list)
    free: list[int] = field(default_factory=list)

    @classmethod
    def sized(cls, rows: int) -> "_Table":
        return cls(
            np.full(rows, -1, np.intp),
            np.full(rows, -1, np.intp),
            np.zeros(rows),
            np.zeros(rows),
            np.zeros((rows, len(RESOURCES))),
        )

    def grow(self) -> None:
        """Double the rows."""
        bigger, used = _Table.sized(2 * len(self.at)), len(self.names)
        for name in ("nodes", "policies", "at", "shares", "requests"):
            getattr(bigger, name)[:used] = getattr(self, name)[:used]
            setattr(self, name, getattr(bigger, name))


@dataclass(slots=True)
class _Entry:
    """Where a pod counts. `until`: when an answer that no binding confirms ends; infinity for a bound pod.

    `entered`: when it was entered, as in the queues of the ledger, to recognize a later entry of the pod.
    """

    rows: list[int]
    pod: PlacedPod
    until: float
    entered: float

    @property
    def bound(self) -> bool:
        """Whether the pod was bound to a node."""
        return self.until == np.inf


class Ledger:
    """The pods placed lately. `version` increases with every change."""

    def __init__(self, most_pods: int = MOST_PODS) -> None:
        self.version = 0
        self._most_pods = most_pods
        self.policies: list[PolicyKey] = []
        """Policies by number; some may have no pod any more."""
        self._numbers: dict[PolicyKey, int] = {}
        self._table = _Table.sized(64)
        self._entries: dict[str, _Entry] = {}
        self._bound: deque[tuple[float, str]] = deque()
        """Bound pods by time of their entry, for `forget`; entries that were removed meanwhile are skipped."""
        self._answered: deque[tuple[float, str]] = deque()
        self._nodes = NodeIndex()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def bound_at(self, uid: str) -> float | None:
        """Return when a pod was bound (seconds); None if it is not there, or only recommended."""
        entry = self._entries.get(uid)
        return float(self._table.at[entry.rows[0]]) if entry and entry.bound else None

    def node(self, uid: str) -> str:
        """Return the node of a pod; empty if it is not there."""
        entry = self._entries.get(uid)
        return self._table.names[entry.rows[0]] if entry else ""

    def unconfirmed(self) -> int:
        """Return the number of answers that no binding confirmed yet."""
        entries = ((until, self._entries.get(uid)) for until, uid in self._answered)
        return sum(entry is not None and entry.until == until for until, entry in entries)

    def bind(self, pod: PlacedPod, node: str, at: float, *, now: float | None = None) -> None:
        """Count a pod on the node it was bound to at `at`, in place of an answer; `now`: when it is entered."""
        entered = at if now is None else now
        self._put(pod, (node,), at, until=np.inf, entered=entered)
        self._bound.append((entered, pod.uid))

    def answer(self, pod: PlacedPod, nodes: Sequence[str], now: float) -> None:
        """Count a pod on the recommended nodes, equally, until it is bound or UNCONFIRMED has passed.

        The last answer counts. A bound pod stays where it is: the request was made before it was bound.
        """
        known = self._entries.get(pod.uid)
        if not pod.uid or (known is not None and known.bound):
            return
        if not nodes or len(nodes) > MOST_SHARED:
            self.remove(pod.uid)
            return
        self._put(pod, nodes, now, until=now + UNCONFIRMED, entered=now)
        self._answered.append((now + UNCONFIRMED, pod.uid))

    def withdraw(self, uid: str) -> None:
        """Drop the answer for a pod that is asked about anew: its own earlier attempt must not count against it."""
        known = self._entries.get(uid)
        if known is not None and not known.bound:
            self.remove(uid)

    def remove(self, uid: str) -> PlacedPod | None:
        """Drop a pod that is gone; return it if it was there."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        self._release(entry.rows)
        return entry.pod

    def end_answers(self, now: float) -> None:
        """Drop answers that no binding has confirmed in time."""
        while self._answered and self._answered[0][0] <= now:
            until, uid = self._answered.popleft()
            entry = self._entries.get(uid)
            if entry is not None and entry.until == until:
                self.remove(uid)

    def forget(self, before: float) -> None:
        """Drop the pods entered before a time, and the earliest ones of more than `most_pods`."""
        while self._bound and (self._bound[0][0] < before or len(self._entries) > self._most_pods):
            entered, uid = self._bound.popleft()
            entry = self._entries.get(uid)
            if entry is not None and entry.bound and entry.entered == entered:
                self.remove(uid)
        if not self._entries:
            self.policies, self._numbers = [], {}

    def weighed(self, nodes: NodeIndex) -> Weighed:
        """Return all entries, with the positions of their nodes in `nodes`."""
        table = self._table
        if nodes is not self._nodes:
            self._nodes = nodes
            table.nodes[: len(table.names)] = nodes.find(table.names)
        used = slice(len(table.names))
        return Weighed(
            table.nodes[used],
            table.policies[used],
            table.at[used],
            table.shares[used],
            table.requests[used],
        )

    def _put(
        self, pod: PlacedPod, nodes: Sequence[str], at: float, *, until: float, entered: float
    ) -> None:
        self.remove(pod.uid)
        rows = [self._row(pod, node, at, 1.0 / len(nodes)) for node in nodes]
        self._entries[pod.uid] = _Entry(rows, pod, until, entered)
        self.version += 1

    def _row(self, pod: PlacedPod, node: str, at: float, share: float) -> int:
        table = self._table
        if table.free:
            row = table.free.pop()
            table.names[row] = node
        else:
            if len(table.names) == len(table.at):
                table.grow()
            row = len(table.names)
            table.names.append(node)
        table.nodes[row] = self._nodes.position.get(node, -1)
        table.policies[row] = self._number(pod.policy)
        table.at[row], table.shares[row] = at, share
        table.requests[row] = pod.requests
        return row

    def _release(self, rows: list[int]) -> None:
        table = self._table
        table.nodes[rows], table.policies[rows] = -1, -1
        for row in rows:
            table.names[row] = ""
        table.free += rows
        if not self._entries:  # the memory of a burst is freed
            self._table, self._entries = _Table.sized(64), {}
        self.version += 1

    def _number(self, policy: PolicyKey) -> int:
        number = self._numbers.get(policy)
        if number is None:
            if len(self.policies) > 2 * len(self._entries) + _SPARE:
                self._renumber()
            number = self._numbers[policy] = len(self.policies)
            self.policies.append(policy)
        return number

    def _renumber(self) -> None:
        """Drop the policies without pods: labels of pods may name any."""
        self.policies, self._numbers = [], {}
        for entry in self._entries.values():
            number = self._numbers.setdefault(entry.pod.policy, len(self._numbers))
            self._table.policies[entry.rows] = number
        self.policies = list(self._numbers)
