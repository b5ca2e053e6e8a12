"""The node conditions of problems: what a node must get, which of its conditions belong to other reporters, and acknowledgements.

A field manager of its own applies them, so that an apply of a policy's conditions removes none of these. A condition that
another reporter owns, such as node-problem-detector, stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from evaluator.core.model.node import KUBERNETES_CONDITIONS, Node, NodeCondition
from evaluator.core.writes.node_plan import conditions_removal
from plimsoll import rfc3339
from plimsoll.text import printable
from wire.problems import TYPE, ProblemCondition

MANAGER = "plimsoll-problems"
"""The field manager of these conditions."""
ACKNOWLEDGED = "plimsoll.io/ack."
"""Prefix of the annotation with which a person acknowledges the problem of a condition type: `<RFC 3339 time> <user>`."""
_MOST_NOTES, _LONGEST_NOTE = 32, 200


@dataclass(frozen=True, slots=True)
class ProblemApply:
    """The conditions that a node has afterwards of this field manager."""

    node: str
    uid: str
    conditions: tuple[ProblemCondition, ...]
    before: Mapping[str, NodeCondition]
    removal: tuple[Mapping[str, Any], ...]
    """The JSON patch to send instead if there are none."""

    def body(self, now: float) -> list[dict[str, Any]]:
        """Return the conditions as JSON at `now` (Unix seconds); one whose status does not change keeps its transition time."""
        return [self._entry(condition, now) for condition in self.conditions]

    def _entry(self, condition: ProblemCondition, now: float) -> dict[str, Any]:
        status, old = _status(condition), self.before.get(condition.type)
        since = condition.since or now
        if old is not None and old.status == status and old.since is not None:
            since = old.since
        return {
            "type": condition.type,
            "status": status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": rfc3339.seconds(min(since, now)),
            "lastHeartbeatTime": rfc3339.seconds(now),
        }


def _status(condition: ProblemCondition) -> str:
    return "True" if condition.active else "False"


def condition_types(text: str) -> frozenset[str]:
    """Parse comma-separated condition types. Raises ValueError."""
    types = frozenset(kind.strip() for kind in text.split(","))
    for kind in types:
        if TYPE.fullmatch(kind) is None:
            raise ValueError(f"not a condition type: {kind[:80]!r}; write it like KernelDeadlock")
        if kind in KUBERNETES_CONDITIONS:
            raise ValueError(f"{kind} is a condition of Kubernetes")
    return types


def foreign(node: Node, types: Iterable[str]) -> dict[str, str]:
    """Return the field managers of the node's conditions of these types that others own; empty for one without a manager."""
    managers = dict(node.metadata.condition_managers)
    present = {c.type for c in node.status.conditions}
    return {
        kind: managers.get(kind, "")
        for kind in sorted(types)
        if kind in present and managers.get(kind) != MANAGER
    }


def compare(
    node: Node, found: Sequence[ProblemCondition] | None, permitted: Set[str]
) -> ProblemApply | None:
    """Return the apply that gives a node the conditions that its agent found; None if it has them, or nothing is known."""
    if found is None:
        return None
    others = foreign(node, permitted)
    wanted = tuple(c for c in found if c.type in permitted and c.type not in others)
    own = own_conditions(node)
    if {kind: (c.status, c.reason) for kind, c in own.items()} == {c.type: (_status(c), c.reason) for c in wanted}:  # fmt: skip
        return None
    removal = () if wanted else tuple(conditions_removal(node, own.keys()))
    return ProblemApply(node.metadata.name, node.metadata.uid, wanted, own, removal)


def own_conditions(node: Node) -> dict[str, NodeCondition]:
    """Return the node's conditions that are ours, by type."""
    managers = dict(node.metadata.condition_managers)
    return {c.type: c for c in node.status.conditions if managers.get(c.type) == MANAGER}


def acknowledgements(node: Node) -> dict[str, tuple[float, str]]:
    """Return the Unix time and the user of each acknowledged problem, by condition type; those without a time are left out."""
    found = {}
    for key, note in islice(node.annotations(ACKNOWLEDGED), _MOST_NOTES):
        kind = key.removeprefix(ACKNOWLEDGED)
        time, _, user = note[:_LONGEST_NOTE].partition(" ")
        at = rfc3339.parse_or_none(time)
        if at is not None and TYPE.fullmatch(kind):
            found[kind] = at, printable(user)
    return found
