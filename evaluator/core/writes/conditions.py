"""Conditions of nodes: compares those that a feature wants with those that a node has, and applies the difference.

Each feature applies its conditions under a field manager of its own (server-side apply). The API server knows which
conditions a field manager applied and removes those that its next apply leaves out; those of other managers stay.

A condition clears in two ways: the feature wants another state of it, such as False/Cleared, or leaves it out. The last
one is removed by a JSON patch: an apply without any condition would also remove every field of the status that has no
owner, such as the capacity that the kubelet wrote when it created the node.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.node import Node, NodeCondition
from evaluator.core.writes.kept import KeptOnNodes
from evaluator.core.writes.node_plan import NodeOperations, Removal
from plimsoll import rfc3339

_FIELD = re.compile(r"\.status\.conditions\[type=(\"(?:[^\"\\]|\\.)*\")\]")
"""The field of a conflict, as server-side apply writes it."""

Describe = Callable[[str, str, str], NodeCondition]
"""Returns the condition to write by node, type and state: with message, and when it got this status."""


@dataclass(frozen=True, slots=True)
class ConditionApply:
    """The conditions that a field manager owns on a node afterwards: type → `<status>/<reason>`."""

    node: str
    uid: str
    states: Mapping[str, str]
    before: Mapping[str, NodeCondition]
    """Those that it owns now."""
    shared: frozenset[str] = frozenset()
    """Types that others have taken over. An apply that left one out would remove it: the field manager still owns its type."""
    removal: tuple[Mapping[str, Any], ...] = ()
    """The JSON patch to send instead if there are none."""

    @property
    def shown(self) -> str:
        """The conditions, for the log."""
        return ",".join(f"{kind}={state}" for kind, state in sorted(self.states.items())) or "none"

    @property
    def fields(self) -> frozenset[str]:
        """The types of the conditions that the node lacks or has in another state."""
        own = {kind: condition.state for kind, condition in self.before.items()}
        return frozenset(kind for kind, state in self.states.items() if own.get(kind) != state)

    def without(self, types: Set[str]) -> "ConditionApply":
        """Return the apply that leaves conditions of these types to others."""
        states = {kind: state for kind, state in self.states.items() if kind not in types}
        return replace(self, states=states, shared=self.shared | (self.before.keys() & types))

    def body(self, describe: Describe) -> list[dict[str, Any]]:
        """Return the conditions as JSON; a condition whose status does not change keeps its transition time."""
        states = sorted(self.states.items())
        described = [describe(self.node, kind, state) for kind, state in states]
        return [*({"type": kind} for kind in sorted(self.shared)), *map(self._entry, described)]

    def _entry(self, condition: NodeCondition) -> dict[str, Any]:
        old, since = self.before.get(condition.type), condition.since
        if old is not None and old.status == condition.status and old.since is not None:
            since = old.since
        times = {"lastTransitionTime": since, "lastHeartbeatTime": condition.at}
        return {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            **{name: rfc3339.seconds(at) for name, at in times.items() if at is not None},
        }


def compare(node: Node, wanted: Mapping[str, str], manager: str) -> ConditionApply | None:
    """Return the apply that gives a node the wanted conditions (type → state) of a field manager; None if it has them.

    Those that others own are left out.
    """
    applied, own = node.applied_conditions(manager), node.own_conditions(manager)
    alone = {kind for kind, is_alone in applied.items() if is_alone}
    foreign = node.foreign_conditions(manager)
    states = {kind: state for kind, state in wanted.items() if kind not in foreign}
    if {kind: c.state for kind, c in own.items()} == states and (not own or own.keys() == alone):
        return None
    meta, shared = node.metadata, frozenset(applied.keys() - alone)
    removal = () if states else tuple(_removal(node, alone))
    return ConditionApply(meta.name, meta.uid, states, own, shared, removal)


def _removal(node: Node, types: Set[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the operations of a JSON patch that removes conditions of these types from the node as read."""
    meta = node.metadata
    yield {"op": "test", "path": "/metadata/uid", "value": meta.uid}
    yield {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}
    for index, condition in reversed([*enumerate(node.status.conditions)]):
        if condition.type in types:
            yield {"op": "remove", "path": f"/status/conditions/{index}"}


def removals(node: Node, manager: str) -> Iterator[Removal]:
    """Yield the write that removes the conditions of a field manager from a node, for the command `clean`."""
    if apply := compare(node, {}, manager):
        kinds = ", ".join(sorted(apply.before))
        yield Removal(f"condition {kinds}", NodeOperations(apply.node, apply.removal, "/status"))


class ConditionWrites:
    """Compares and sends the conditions that one feature sets: the `compare` and `send` of a `NodeWriter`."""

    def __init__(
        self, kube: Kube, manager: str, describe: Describe, kept: KeptOnNodes | None = None
    ) -> None:
        self._kept = kept
        self._kube = kube
        self._manager = manager
        self._describe = describe

    def compare(self, _name: str, node: Node, wanted: Mapping[str, str]) -> ConditionApply | None:
        """Return the apply that gives a node the wanted conditions; None if it has them."""
        found: Mapping[str, str] | None = wanted
        if self._kept is not None:
            own = node.own_conditions(self._manager).items()
            found = self._kept.desired(wanted, {kind: one.state for kind, one in own})
        return None if found is None else compare(node, found, self._manager)

    async def send(self, apply: ConditionApply) -> Node:
        """Apply the conditions; on a conflict, apply again without the conflicting ones. Raises KubeError."""
        if not apply.states:
            return await self._kube.patch_node_status(apply.node, apply.removal)
        try:
            return await self._send(apply)
        except KubeError as error:
            free = apply.without(conflicting_types(error))
            if not free.states or free.states == apply.states:
                raise
            return await self._send(free)

    async def _send(self, apply: ConditionApply) -> Node:
        body = apply.body(self._describe)
        return await self._kube.apply_node_conditions(
            apply.node, apply.uid, body, manager=self._manager
        )


def conflicting_types(error: KubeError) -> set[str]:
    """Return the condition types in the causes of a 409 from server-side apply."""
    fields = (
        _FIELD.match(str(cause.get("field", "")))
        for cause in error.causes
        if cause.get("reason") == "FieldManagerConflict"
    )
    return {json.loads(match[1]) for match in fields if match}
