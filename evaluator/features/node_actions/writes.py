"""The writes that give a node the desired taints, computed from what it has; what of its taints and conditions is ours.

`spec.taints` is an atomic list without owners, and server-side apply would own taints of others. So a JSON patch names
the uid and resourceVersion that it was computed from, and only the elements that are ours. Conditions:
`evaluator/core/writes/conditions.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.core.model.node import Node, Taint
from evaluator.core.model.node_labels import FIELD_MANAGER
from evaluator.core.policy.types import Policy
from evaluator.features.node_actions import names
from evaluator.features.node_actions.annotations import (
    CONDITION,
    TAINT,
    TaintEffect,
    TaintsAndConditions,
)
from evaluator.features.node_actions.page import (
    WrittenActionsFields,
    WrittenCondition,
    WrittenTaint,
)
from evaluator.features.node_actions.types import VALUE, OwnTaint, taint_name
from plimsoll import rfc3339


@dataclass(frozen=True, slots=True)
class NodePatch:
    """A JSON patch (RFC 6902) of one node. `adds`: the taints that the node may get from it."""

    node: str
    operations: tuple[Mapping[str, Any], ...]
    adds: frozenset[OwnTaint]
    shown: str
    """Our taints afterwards, for the log."""

    @property
    def fields(self) -> frozenset[str]:
        """The keys of the taints that the node lacks."""
        return frozenset(key for key, _ in self.adds)


def own_taints(node: Node, prefixes: tuple[str, ...]) -> frozenset[OwnTaint]:
    """Return our taints of a node: those with one of the key prefixes."""
    taints = node.spec.taints or ()
    return frozenset((t.key, t.effect) for t in taints if t.key.startswith(prefixes))


def compare_taints(
    node: Node, desired: Mapping[str, str], prefixes: tuple[str, ...]
) -> NodePatch | None:
    """Return the patch that gives a node the desired taints (`<key>:<effect>`); None if it has them."""
    taints: Sequence[Taint] = node.spec.taints or ()
    wanted = dict(desired)
    remove = []
    for index, taint in enumerate(taints):
        if not taint.key.startswith(prefixes):
            continue
        name = taint_name(taint.key, taint.effect)
        if wanted.get(name) == taint.value:
            del wanted[name]
        else:
            remove.append(index)
    if not remove and not wanted:
        return None
    meta = node.metadata
    adds = [_own_taint(name) for name in sorted(wanted)]
    added = [{"key": key, "value": VALUE, "effect": effect} for key, effect in adds]
    operations: list[Mapping[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": meta.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        *({"op": "remove", "path": f"/spec/taints/{index}"} for index in reversed(remove)),
    ]
    if taints:
        operations += [{"op": "add", "path": "/spec/taints/-", "value": taint} for taint in added]
    elif added:
        operations.append({"op": "add", "path": "/spec/taints", "value": added})
    return NodePatch(
        meta.name, tuple(operations), frozenset(adds), ",".join(sorted(desired)) or "none"
    )


def _own_taint(name: str) -> OwnTaint:
    key, _, effect = name.rpartition(":")
    return key, TaintEffect(effect).value


def set_on_node(node: Node | None, prefixes: tuple[str, ...]) -> WrittenActionsFields:
    """Return all taints (with one of our key prefixes) and conditions of a node that are ours."""
    if node is None:
        return WrittenActionsFields(taints=[], conditions=[])
    own = [taint for taint in node.spec.taints or () if taint.key.startswith(prefixes)]
    return WrittenActionsFields(
        taints=[WrittenTaint(taint.key, taint.value, taint.effect) for taint in own],
        conditions=[
            WrittenCondition(
                type=kind,
                status=condition.status,
                reason=condition.reason,
                since=None if condition.since is None else rfc3339.seconds(condition.since),
            )
            for kind, condition in sorted(node.own_conditions(FIELD_MANAGER).items())
        ],
    )


def set_by_policy(
    node: Node | None, policy: Policy, prefixes: tuple[str, ...]
) -> WrittenActionsFields:
    """Return the part of it that one policy caused: its taint and its condition."""
    written = set_on_node(node, prefixes)
    actions, suffix = policy.actions.part(TaintsAndConditions), names.taint_suffix(policy.key)
    keys = {prefix + suffix for prefix in prefixes} if TAINT in actions.kinds else set()
    kind = actions.condition if CONDITION in actions.kinds else None
    return WrittenActionsFields(
        taints=[taint for taint in written.taints if taint.key in keys],
        conditions=[condition for condition in written.conditions if condition.type == kind],
    )


class Records:
    """The records of nodes. `prefixes`: those of our taint keys."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes

    def by_record(self, node: Node) -> dict[str, str]:
        """Return our taints and conditions of a node, by record."""
        records: dict[str, str] = {}
        for taint in node.spec.taints or ():
            for prefix in self._prefixes:
                if taint.key.startswith(prefix):
                    suffix = taint.key.removeprefix(prefix)
                    records[names.taint_record(suffix, taint.effect)] = taint.value
        for kind, condition in node.own_conditions(FIELD_MANAGER).items():
            records[names.condition_record(kind)] = condition.state
        return records
