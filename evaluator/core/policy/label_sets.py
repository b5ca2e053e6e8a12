"""The node labels that policies want, stored per label; the view per node is built on first access."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Mask, NodeIndex, NodeMask, Positions, Reindex, union
from plimsoll.steps import Steps

LabelsOf = Callable[[str], Mapping[str, str]]
"""Node → the labels that Plimsoll owns on it now, and its records (`ActionPart.records`)."""
_FEW_NODES = 250
"""Nodes that are looked up one by one before the labels are sorted by node, which takes milliseconds."""


class LabelAssignment(NamedTuple):
    """One label, and the nodes to set it on."""

    key: str
    value: str
    nodes: NodeMask


_Earlier = tuple[Mapping[tuple[str, str], NodeMask], dict[str, Mapping[str, str]]]
"""`by_label` and `read` of the previous decision. The object itself would keep all its predecessors."""


class LabelAssignments(Mapping[str, Mapping[str, str]]):
    """Node → label key → value, for nodes with at least one label. A key has one value per node.

    A lazy mapping; use `changed_since` to find differences cheaply. The labels of a node are the same object as in the
    previous decision if they are equal and were read there.
    """

    def __init__(
        self, nodes: NodeIndex, assignments: Sequence[LabelAssignment], earlier: _Earlier = ({}, {})
    ) -> None:
        self.nodes = nodes
        self.assignments = tuple(one for one in assignments if one.nodes.count)
        self.read: dict[str, Mapping[str, str]] = {}
        """The labels of the nodes that were read."""
        self._looked_up = 0
        self._earlier = earlier

    @cached_property
    def by_label(self) -> Mapping[tuple[str, str], NodeMask]:
        """(key, value) → the nodes to set it on."""
        return {(key, value): nodes for key, value, nodes in self.assignments}

    @cached_property
    def labelled(self) -> Mask:
        """Nodes with at least one label, shape (nodes,)."""
        return union((one.nodes.mask for one in self.assignments), self.nodes)

    def reuse(self, before: "LabelAssignments") -> "Steps[LabelAssignments]":
        """Return `before` if it is equal, else an equal object that shares the unchanged parts."""
        if before.nodes is not self.nodes:
            return self
        known = before.by_label
        shared: list[LabelAssignment] = []
        for key, value, found in self.assignments:
            shared.append(LabelAssignment(key, value, found.reuse(known.get((key, value)))))
            yield
        if len(shared) == len(before.assignments) and all(
            one.nodes is other.nodes and one[:2] == other[:2]
            for one, other in zip(shared, before.assignments, strict=True)
        ):
            return before
        return LabelAssignments(self.nodes, shared, (known, before.read))

    def keeping(self, old: "LabelAssignments", where: Mask, reindex: Reindex) -> "LabelAssignments":
        """Return these assignments, with those of `old` on the nodes in `where` that had labels."""
        if where is self.nodes.none or not old.assignments:
            return self
        kept = where & reindex.mask(old.labelled)
        masks = {label: found.mask & ~kept for label, found in self.by_label.items()}
        for label, found in old.by_label.items():
            masks[label] = masks.get(label, self.nodes.none) | (reindex.mask(found.mask) & kept)
        assignments = [
            LabelAssignment(*label, NodeMask(self.nodes, mask)) for label, mask in masks.items()
        ]
        return LabelAssignments(self.nodes, assignments)

    def changed_since(self, before: "LabelAssignments") -> Sequence[str]:
        """Return the nodes whose labels differ from `before`, in order; all nodes if the node set differs."""
        if before is self:
            return ()
        if before.nodes is not self.nodes:
            return self.nodes
        return self.nodes.names_at(self._differing(before.by_label))

    def _differing(self, before: Mapping[tuple[str, str], NodeMask]) -> Mask:
        """Return the nodes whose labels differ from other `by_label` over the same nodes, shape (nodes,)."""
        pairs = (
            (self.by_label.get(label), before.get(label)) for label in {**self.by_label, **before}
        )
        none = self.nodes.none
        return union(
            (
                (one.mask if one else none) ^ (other.mask if other else none)
                for one, other in pairs
                if one is not other
            ),
            self.nodes,
        )

    @cached_property
    def _unchanged(self) -> Mapping[str, Mapping[str, str]]:
        """The labels that were read of the previous decision, of nodes whose labels are the same."""
        by_label, read = self._earlier
        self._earlier = {}, {}
        if not read:
            return read
        unchanged = read.copy()
        for node in self.nodes.names_at(self._differing(by_label)):
            unchanged.pop(node, None)
        return unchanged

    def labels_at(self, position: int) -> dict[str, str]:
        """Return the labels of one node without sorting those of all."""
        return {key: value for key, value, nodes in self.assignments if nodes.mask[position]}

    @cached_property
    def _numbers(self) -> tuple[Positions, list[int]]:
        """The assignment numbers of all nodes, node by node, and the offset of each node in them (CSR layout)."""
        positions = [one.nodes.mask.nonzero()[0] for one in self.assignments]
        numbers = np.repeat(
            np.arange(len(positions)), [one.nodes.count for one in self.assignments]
        )
        where = np.concatenate(positions) if positions else numbers
        if len(self.nodes) < 1 << 16:  # 16-bit keys sort several times as fast
            where = where.astype(np.uint16)
        order = where.argsort(kind="stable")
        ends = np.bincount(where, minlength=len(self.nodes)).cumsum()
        return numbers[order], [0, *ends.tolist()]

    @cached_property
    def _labels(self) -> list[tuple[str, str]]:
        return [(key, value) for key, value, _ in self.assignments]

    def __getitem__(self, node: str) -> Mapping[str, str]:
        found = self.read.get(node)
        if found is None:
            found = self.read[node] = self._unchanged.get(node) or self._look_up(node)
        return found

    def _look_up(self, node: str) -> Mapping[str, str]:
        position = self.nodes.position[node]
        if self._looked_up < _FEW_NODES:
            self._looked_up += 1
            found = self.labels_at(position)
        else:
            numbers, begins = self._numbers
            own = numbers[begins[position] : begins[position + 1]].tolist()
            found = dict(map(self._labels.__getitem__, own))
        if not found:
            raise KeyError(node)
        return found

    def __contains__(self, node: object) -> bool:
        position = self.nodes.position.get(node) if isinstance(node, str) else None
        return position is not None and bool(self.labelled[position])

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes.names_at(self.labelled))

    def __len__(self) -> int:
        return int(np.count_nonzero(self.labelled))

    def __repr__(self) -> str:
        return repr({node: dict(labels) for node, labels in self.items()})


_NO_ASSIGNMENTS = LabelAssignments(NodeIndex(), ())


def assignments_of(labels: Mapping[str, Mapping[str, str]]) -> LabelAssignments:
    """Return labels as `LabelAssignments`; empty if they are a plain mapping."""
    return labels if isinstance(labels, LabelAssignments) else _NO_ASSIGNMENTS


Claims = Sequence[tuple[PolicyKey, LabelAssignments]]
Clashes = dict[PolicyKey, list[str]]


def merged(claims: Claims, nodes: NodeIndex) -> Steps[tuple[LabelAssignments, Clashes]]:
    """Merge the labels of all policies; returns them, and the problem texts of policies that lost a key.

    Policies of one name in two namespaces share label keys. The first one given wins, so that the result does not depend
    on the order of creation.
    """
    by_key: dict[str, list[tuple[PolicyKey, LabelAssignment]]] = {}
    for policy, labels in claims:
        for one in labels.assignments:
            by_key.setdefault(one.key, []).append((policy, one))
        yield
    found: list[LabelAssignment] = []
    contested: list[str] = []
    for key, claimed in by_key.items():
        if all(policy == claimed[0][0] for policy, _ in claimed):
            found += [one for _, one in claimed]
        else:
            contested.append(key)
        yield
    clashes: Clashes = {}
    for key in sorted(contested):
        found += yield from _contest(key, by_key[key], nodes, clashes)
        yield
    return LabelAssignments(nodes, found), clashes


def _contest(
    key: str,
    claimed: Sequence[tuple[PolicyKey, LabelAssignment]],
    nodes: NodeIndex,
    clashes: Clashes,
) -> Steps[list[LabelAssignment]]:
    """Assign a key that several policies set; adds a problem to `clashes` for each loser."""
    values = list(dict.fromkeys(one.value for _, one in claimed))
    owner, value = np.full(len(nodes), -1), np.full(len(nodes), -1)
    for number, (policy, one) in enumerate(claimed):
        mine, mask = values.index(one.value), one.nodes.mask
        lost = mask & (value >= 0) & (value != mine)
        for winner in np.unique(owner[lost]).tolist():
            sentence = f"label {key}: policy {claimed[winner][0]} sets another value, and it wins"
            problems = clashes.setdefault(policy, [])
            problems.extend([sentence] if sentence not in problems else [])
        free = mask & (value < 0)
        owner[free], value[free] = number, mine
        yield
    return [
        LabelAssignment(key, v, NodeMask(nodes, value == mine)) for mine, v in enumerate(values)
    ]


class AppliedLabels:
    """The labels that Plimsoll already owns on nodes; each node is looked up once, on demand."""

    def __init__(self, nodes: NodeIndex, labels_of: LabelsOf) -> None:
        self.nodes = nodes
        self._labels_of = labels_of
        self._looked_up = np.zeros(len(nodes), dtype=bool)
        self._where: dict[tuple[str, str], Mask] = {}

    def labelled_with(self, mask: Mask, labels: Sequence[tuple[str, str]]) -> Mask:
        """Return which of the nodes in `mask` have any of the labels."""
        if not labels:
            return self.nodes.none
        for position in (mask & ~self._looked_up).nonzero()[0].tolist():
            for label in self._labels_of(self.nodes[position]).items():
                if label not in self._where:
                    self._where[label] = np.zeros(len(self.nodes), dtype=bool)
                self._where[label][position] = True
        self._looked_up |= mask
        return mask & union((self._where.get(x, self.nodes.none) for x in labels), self.nodes)
