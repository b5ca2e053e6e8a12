"""The node labels that policies want, kept as who bears which label; by node when somebody asks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evaluator.model.names import PolicyKey
from evaluator.model.node_index import Mask, NodeIndex, NodeMask, Reindex, union
from evaluator.model.steps import Steps


class LabelAssignment(NamedTuple):
    """One label, and the nodes that are to bear it."""

    key: str
    value: str
    nodes: NodeMask


class LabelAssignments(Mapping[str, Mapping[str, str]]):
    """Node → label key → value; only nodes that are to bear a label are in it. A key has one value on a node.

    Reads as a dict. Who only wants to know what became different asks `changed_since`.
    """

    def __init__(self, nodes: NodeIndex, marks: Sequence[LabelAssignment]) -> None:
        self.nodes = nodes
        self.assignments = tuple(mark for mark in marks if mark.nodes.count)

    @cached_property
    def by_label(self) -> Mapping[tuple[str, str], NodeMask]:
        """Who bears a label, given its key and value."""
        return {(key, value): nodes for key, value, nodes in self.assignments}

    @cached_property
    def anyone(self) -> Mask:
        """The nodes that bear a label."""
        return union((mark.nodes.mask for mark in self.assignments), self.nodes)

    def reuse(self, before: "LabelAssignments") -> "Steps[LabelAssignments]":
        """The object of before if it says the same, and else this one with the parts that are the same."""
        if before.nodes is not self.nodes:
            return self
        known = before.by_label
        marks: list[LabelAssignment] = []
        for key, value, found in self.assignments:
            marks.append(LabelAssignment(key, value, found.reuse(known.get((key, value)))))
            yield
        if len(marks) == len(before.assignments) and all(
            one.nodes is other.nodes and one[:2] == other[:2]
            for one, other in zip(marks, before.assignments, strict=True)
        ):
            return before
        return LabelAssignments(self.nodes, marks)

    def keeping(self, old: "LabelAssignments", where: Mask, moves: Reindex) -> "LabelAssignments":
        """This, but the labels of old on some nodes, if they bore any then."""
        if where is self.nodes.none or not old.assignments:
            return self
        held = where & moves.mask(old.anyone)
        masks = {label: found.mask & ~held for label, found in self.by_label.items()}
        for label, found in old.by_label.items():
            masks[label] = masks.get(label, self.nodes.none) | (moves.mask(found.mask) & held)
        marks = [
            LabelAssignment(*label, NodeMask(self.nodes, mask)) for label, mask in masks.items()
        ]
        return LabelAssignments(self.nodes, marks)

    def changed_since(self, before: "LabelAssignments") -> Sequence[str]:
        """The nodes of these whose labels were others, in order; all of them where the nodes were others."""
        if before is self:
            return ()
        if before.nodes is not self.nodes:
            return self.nodes
        pairs = (
            (self.by_label.get(label), before.by_label.get(label))
            for label in {**self.by_label, **before.by_label}
        )
        none = self.nodes.none
        return self.nodes.at(
            union(
                (
                    (one.mask if one else none) ^ (other.mask if other else none)
                    for one, other in pairs
                    if one is not other
                ),
                self.nodes,
            )
        )

    @cached_property
    def _numbers(self) -> tuple[list[int], list[int]]:
        """The numbers of each node's marks, one node after the other, and where each node's begin (and the last end)."""
        places = [mark.nodes.mask.nonzero()[0] for mark in self.assignments]
        numbers = np.repeat(np.arange(len(places)), [len(found) for found in places])
        where = np.concatenate(places) if places else numbers
        if len(self.nodes) < 1 << 16:  # short numbers are sorted in no time
            where = where.astype(np.uint16)
        order = where.argsort(kind="stable")
        ends = np.bincount(where, minlength=len(self.nodes)).cumsum()
        return numbers[order].tolist(), [0, *ends.tolist()]

    @cached_property
    def _labels(self) -> list[tuple[str, str]]:
        return [(key, value) for key, value, _ in self.assignments]

    def __getitem__(self, node: str) -> Mapping[str, str]:
        place = self.nodes.position[node]
        numbers, begins = self._numbers
        own = numbers[begins[place] : begins[place + 1]]
        if not own:
            raise KeyError(node)
        return dict(map(self._labels.__getitem__, own))

    def __contains__(self, node: object) -> bool:
        place = self.nodes.position.get(node) if isinstance(node, str) else None
        return place is not None and bool(self.anyone[place])

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes.at(self.anyone))

    def __len__(self) -> int:
        return int(np.count_nonzero(self.anyone))

    def __repr__(self) -> str:
        return repr({node: dict(labels) for node, labels in self.items()})


_NO_MARKS = LabelAssignments(NodeIndex(), ())


def assignments_of(labels: Mapping[str, Mapping[str, str]]) -> LabelAssignments:
    """Labels as marks, if that is what they are; none if they were put together by hand."""
    return labels if isinstance(labels, LabelAssignments) else _NO_MARKS


Claims = Sequence[tuple[PolicyKey, LabelAssignments]]
Clashes = dict[PolicyKey, list[str]]


def merged(claims: Claims, nodes: NodeIndex) -> Steps[tuple[LabelAssignments, Clashes]]:
    """All labels wanted, and what each policy has to be told where two of them want different values.

    Policies of one name in two namespaces share label keys. The first one given wins, so that the result does not depend
    on which came into the cluster first.
    """
    by_key: dict[str, list[tuple[PolicyKey, LabelAssignment]]] = {}
    for policy, marks in claims:
        for mark in marks.assignments:
            by_key.setdefault(mark.key, []).append((policy, mark))
        yield
    found: list[LabelAssignment] = []
    contested: list[str] = []
    for key, claimed in by_key.items():
        if all(policy == claimed[0][0] for policy, _ in claimed):
            found += [mark for _, mark in claimed]
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
    """Who bears which value of a key that several policies set; tells `clashes` who lost."""
    values = list(dict.fromkeys(mark.value for _, mark in claimed))
    owner, value = np.full(len(nodes), -1), np.full(len(nodes), -1)
    for number, (policy, mark) in enumerate(claimed):
        mine, mask = values.index(mark.value), mark.nodes.mask
        lost = mask & (value >= 0) & (value != mine)
        for winner in np.unique(owner[lost]).tolist():
            sentence = f"label {key}: policy {claimed[winner][0]} sets another value, and it wins"
            told = clashes.setdefault(policy, [])
            told.extend([sentence] if sentence not in told else [])
        free = mask & (value < 0)
        owner[free], value[free] = number, mine
        yield
    return [
        LabelAssignment(key, v, NodeMask(nodes, value == mine)) for mine, v in enumerate(values)
    ]
