"""The history: three rings of records, so that a storm of transitions or pods drops no action, and what it lets others read."""

import heapq
import uuid
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.names import PolicyKey
from evaluator.core.signals import Acted, ActionKind
from evaluator.features.history.plan import Edit, Transition, Transitions
from evaluator.features.history.records import (
    STRATEGIES,
    TRANSITIONS,
    Block,
    Kind,
    PackedRecord,
    Records,
    Ring,
    as_json,
    kinds_with,
)

_TRANSITIONS, _ACTIONS = 0.75, 0.17
"""Shares of the bytes for transitions and actions; the rest is for edits of policies and what pods got."""
_STRATEGIES: Mapping[str, int] = {name: number for number, name in enumerate(STRATEGIES)}
_AT_ONCE = 250
"""Records made in one step, in about a millisecond."""
_PATH = 1_000
"""Characters kept of a text."""


class Entry(NamedTuple):
    """One record, decoded when its fields are read; `number` orders all records."""

    number: int
    record: Any
    block: Block

    @property
    def fields(self) -> dict[str, Any]:
        """The record as a JSON object."""
        return as_json(self.record, self.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which records to read; empty fields are no condition. `since` and `until` are Unix seconds, `after` a record's number."""

    namespace: str = ""
    policy: str = ""
    node: str = ""
    pod: str = ""
    kinds: frozenset[str] = frozenset()
    since: float = -np.inf
    until: float = np.inf
    after: int = 0

    def matching(self, block: Block) -> Records:
        """Return the records of a block, the oldest first."""
        records = block.records
        if not len(records) or records["number"][-1] <= self.after:
            return records[:0]
        if self.after:  # the newest are last: live pages ask for few of many
            records = records[np.searchsorted(records["number"], self.after, "right") :]
        numbers = {}
        for name in ("policy", "node", "pod"):
            if wanted := getattr(self, name):
                if (number := block.find(wanted)) is None:
                    return records[:0]
                numbers[name] = number
        keep = (records["at"] >= self.since) & (records["at"] < self.until)
        for name, number in numbers.items():
            keep &= records[name] == number
        if self.kinds:
            keep &= np.isin(records["kind"], [block.kinds.index(kind) for kind in self.kinds])
        if self.namespace:
            keep &= self._covered(block, records)
        return records[keep]

    def _covered(self, block: Block, records: Records) -> Any:
        """Return which records are about an object of the namespace."""
        begin = f"{self.namespace}/"
        inside = [
            number
            for number in np.unique(np.concatenate([records["policy"], records["pod"]])).tolist()
            if number and str(block.symbols[number]).startswith(begin)
        ]
        policy, pod = np.isin(records["policy"], inside), np.isin(records["pod"], inside)
        # A record that also names an object of another namespace is not this namespace's.
        return (policy | pod) & (policy | (records["policy"] == 0)) & (pod | (records["pod"] == 0))


ALL = Query()


class OwnNumbers(NamedTuple):
    """The records of a namespace, numbered apart from those of others, from 1."""

    newest: int
    """That of the newest record."""
    numbers: Any
    """The numbers among all records of those that are kept, ascending; shape (records,)."""

    def own(self, number: int) -> int:
        """Return a record's own number, given its number among all records."""
        newer = len(self.numbers) - int(np.searchsorted(self.numbers, number, "right"))
        return self.newest - newer

    def among_all(self, own: int) -> int:
        """Return the number among all records of the record with an own number; 0 if it is no longer kept."""
        position = len(self.numbers) - (self.newest - own) - 1
        if position < 0:
            return 0
        return int(self.numbers[min(position, len(self.numbers) - 1)])


class History:
    """Records within `size` bytes. Times are Unix seconds. `actions`: the kinds of what the evaluator does."""

    def __init__(self, size: int, age: float, actions: Iterable[str] = ActionKind) -> None:
        actions = tuple(actions)
        self.kinds = kinds_with(actions)
        self.action_kinds = frozenset(actions)
        self._codes = {kind: number for number, kind in enumerate(self.kinds)}
        of_transitions, of_actions = (int(share * size) for share in (_TRANSITIONS, _ACTIONS))
        self.transitions = Ring(of_transitions, self.kinds)
        """Those of nodes seen in decisions."""
        self.actions = Ring(of_actions, self.kinds)
        self._others = Ring(size - of_transitions - of_actions, self.kinds)
        self._rings = (self.transitions, self.actions, self._others)
        self._by_kind = dict.fromkeys(self.kinds, self._others)
        self._by_kind |= dict.fromkeys(TRANSITIONS, self.transitions)
        self._by_kind |= dict.fromkeys(actions, self.actions)
        self._age = age
        self.recorder = uuid.uuid4().hex[:12]
        """Of this process: numbers of records are its own."""
        self.newest = 0
        """The number of the newest record; records are numbered from 1."""
        self._of_namespaces = Counter[str]()
        """The records of each namespace so far."""

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return sum(ring.size for ring in self._rings)

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(ring.count for ring in self._rings)

    @property
    def dropped(self) -> int:
        """Records that were dropped so far, because of the size or their age."""
        return sum(ring.dropped for ring in self._rings)

    def complete_since(self, started: float) -> float:
        """Return since when every transition is there, given when this process started (Unix seconds)."""
        return max(started, self.transitions.oldest) if self.transitions.dropped else started

    def add_transitions(
        self, changes: Iterable[Transitions], at: float, guard: Guard = UNGUARDED
    ) -> Iterator[None]:
        """Add a record for each node, in steps. `guard` takes what the record of one raises."""
        count = 0
        for found in changes:
            policy = str(found.policy.key)
            for move in found.moves:
                about = f"transition of {move.node} in {policy}"
                guard.run(about, partial(self._add_transition, found, policy, move, at), None)
                count += 1
                if count % _AT_ONCE == 0:
                    yield

    def _add_transition(self, found: Transitions, policy: str, move: Transition, at: float) -> None:
        block = self.transitions.open_block()
        record = PackedRecord(
            number=self.newest + 1,
            at=at,
            reading=move.reading,
            policy=block.symbol(policy),
            node=block.symbol(move.node),
            text=block.symbol(move.cause or ""),
            kind=move.now,
            was=move.was,
            why=move.why,
            strategy=_STRATEGIES[found.strategy],
            observed=found.policy.observed,
        )
        block.add(record)
        self.newest += 1
        self._of_namespaces[found.policy.key.namespace] += 1

    def add_edit(self, edit: Edit, at: float) -> None:
        """Add a record of a policy's edit."""
        policy = edit.policy
        self.add(Kind.POLICY, at, policy=policy.key, text=edit.what, observed=policy.observed)

    def add_action(self, action: Acted, at: float) -> None:
        """Add a record of what a feature did."""
        self.add(
            action.kind,
            at,
            policy=action.policy,
            node=action.node,
            pod=action.pod,
            text=action.text,
        )

    def add(
        self,
        kind: str,
        at: float,
        *,
        policy: PolicyKey | None = None,
        node: str = "",
        pod: str = "",
        text: str = "",
        observed: bool = False,
        restored: bool = False,
    ) -> None:
        """Add one record that is no transition seen in decisions."""
        block = self._by_kind[kind].open_block()
        record = PackedRecord(
            number=self.newest + 1,
            at=at,
            policy=block.symbol(str(policy) if policy else ""),
            node=block.symbol(node),
            pod=block.symbol(pod),
            text=block.symbol(text[:_PATH]),
            kind=self._codes[kind],
            observed=observed,
            restored=restored,
        )
        block.add(record)
        self.newest += 1
        namespaces = {policy.namespace} if policy else set()
        namespaces |= {pod.partition("/")[0]} if pod else set()
        if len(namespaces) == 1:
            self._of_namespaces.update(namespaces)

    def forget(self, now: float) -> None:
        """Drop records that are too old."""
        for ring in self._rings:
            ring.forget(now - self._age)

    def newest_of(self, namespace: str) -> int:
        """Return how many records of a namespace there were so far: the own number of the newest; of all without one."""
        return self._of_namespaces[namespace] if namespace else self.newest

    def own_numbers(self, namespace: str) -> Generator[None, None, OwnNumbers]:
        """Return the numbers of a namespace's records, in steps of one block."""
        newest, last, query = self.newest_of(namespace), self.newest, Query(namespace=namespace)
        found = [np.zeros(0, np.uint64)]
        for ring in self._rings:
            for block in ring.newest_first():
                found.append(query.matching(block)["number"].copy())
                yield
        numbers = np.sort(np.concatenate(found))
        return OwnNumbers(newest, numbers[: np.searchsorted(numbers, last, "right")])

    def newest_first(self, query: Query = ALL) -> Iterator[Entry | None]:
        """Yield the records of a query, the newest first, and None between steps."""
        return heapq.merge(*(_entries(ring, query) for ring in self._rings), key=_order)

    def matching(self, query: Query) -> Iterator[int]:
        """Yield the number of records of a query by block."""
        for ring in self._rings:
            for block in ring.newest_first():
                yield len(query.matching(block))


def _order(entry: Entry | None) -> int:
    return -entry.number if entry else -(1 << 63)


def _entries(ring: Ring, query: Query) -> Iterator[Entry | None]:
    for block in ring.newest_first():
        found = query.matching(block)
        numbers = found["number"].tolist()
        for position in reversed(range(len(found))):
            yield Entry(numbers[position], found[position], block)
        yield None
