"""Compares the taints of a node with the desired ones, as one JSON patch.

`spec.taints` is an atomic list without owners: server-side apply would own taints of others. The patch names the uid and
resourceVersion that it was computed from, and only the elements that are ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.core.model.node import Node, Taint
from evaluator.core.policy.actions.types import TaintEffect
from evaluator.features.node_actions.types import VALUE, OwnTaint, taint_name


@dataclass(frozen=True, slots=True)
class NodePatch:
    """A JSON patch (RFC 6902) of one node. `adds`: the taints that the node may get from it."""

    node: str
    operations: tuple[Mapping[str, Any], ...]
    adds: frozenset[OwnTaint]
    taints: str
    """Our taints afterwards, for the log."""


def own_taints(node: Node, prefixes: tuple[str, ...]) -> frozenset[OwnTaint]:
    """Return our taints of a node: those with one of the key prefixes."""
    taints = node.spec.taints or ()
    return frozenset((t.key, t.effect) for t in taints if t.key.startswith(prefixes))


def compare(node: Node, desired: Mapping[str, str], prefixes: tuple[str, ...]) -> NodePatch | None:
    """Return the patch that gives a node the desired taints (`<key>:<effect>`); None if it has them."""
    taints: Sequence[Taint] = node.spec.taints or ()
    wanted = dict(desired)
    remove = []
    for index, taint in enumerate(taints):
        if not taint.key.startswith(prefixes):
            continue
        name = taint_name(taint.key, taint.effect)
        if wanted.get(name) == taint.value == VALUE:
            del wanted[name]
        else:
            remove.append(index)
    if not remove and not wanted:
        return None
    meta = node.metadata
    adds = [_own(name) for name in sorted(wanted)]
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


def _own(name: str) -> OwnTaint:
    key, _, effect = name.rpartition(":")
    return key, TaintEffect(effect).value
