"""The node conditions of problems: what a node must get, which of its conditions belong to other reporters, and acknowledgements.

A field manager of its own applies them, so that an apply of a policy's conditions removes none of these. A condition that
another reporter owns, such as node-problem-detector, stays as it is.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from itertools import islice

from evaluator.core.model.node import KUBERNETES_CONDITIONS, Node, NodeCondition
from evaluator.core.readings.reported import NodeProblems
from evaluator.core.writes.node_plan import KEPT
from plimsoll import rfc3339
from plimsoll.text import printable
from wire.problems import TYPE, ProblemCondition

MANAGER = "plimsoll-problems"
"""The field manager of these conditions."""
ACKNOWLEDGED = "plimsoll.io/ack."
"""Prefix of the annotation with which a person acknowledges the problem of a condition type: `<RFC 3339 time> <user>`."""
_MOST_NOTES, _LONGEST_NOTE = 32, 200


def condition_types(text: str) -> frozenset[str]:
    """Parse comma-separated condition types. Raises ValueError."""
    types = frozenset(kind.strip() for kind in text.split(","))
    for kind in types:
        if TYPE.fullmatch(kind) is None:
            raise ValueError(f"not a condition type: {kind[:80]!r}; write it like KernelDeadlock")
        if kind in KUBERNETES_CONDITIONS:
            raise ValueError(f"{kind} is a condition of Kubernetes")
    return types


def foreign(node: Node, types: Set[str]) -> dict[str, str]:
    """Return the field managers of the node's conditions of these types that others own; empty for one without a manager."""
    found = node.foreign_conditions(MANAGER)
    return {kind: found[kind] for kind in sorted(found.keys() & types)}


def condition(found: ProblemCondition, now: float) -> NodeCondition:
    """Return the node condition of a problem at `now` (Unix seconds)."""
    status, since = str(found.active), min(found.since or now, now)
    return NodeCondition(found.type, status, found.reason, since, now, found.message)


class ProblemConditions(Mapping[str, Mapping[str, str]]):
    """Node → type → state of the conditions that its agent found, those of permitted types; a view of `problems`."""

    def __init__(
        self, problems: NodeProblems, permitted: Set[str], clock: Callable[[], float]
    ) -> None:
        """`clock` returns Unix seconds."""
        self._problems = problems
        self._permitted = permitted
        self._clock = clock

    def __getitem__(self, node: str) -> Mapping[str, str]:
        found = self._problems.conditions(node)
        if found is None:
            return KEPT
        return {c.type: condition(c, 0.0).state for c in found if c.type in self._permitted}

    def __iter__(self) -> Iterator[str]:
        return iter(self._problems.nodes())

    def __len__(self) -> int:
        return len(self._problems.nodes())

    def condition(self, node: str, kind: str, state: str) -> NodeCondition:
        """Return a condition of a node as its agent found it last."""
        for found in self._problems.conditions(node) or ():
            if found.type == kind:
                return condition(found, self._clock())
        return NodeCondition.in_state(kind, state)


def acknowledgements(node: Node, now: float) -> dict[str, tuple[float, str]]:
    """Return the Unix time and the user of each acknowledged problem, by condition type; those without a time are left out.

    A person's clock may be ahead: a time is at most when the API server got it, or else `now`, so that what begins later stays.
    """
    found = {}
    for key, note in islice(node.annotations(ACKNOWLEDGED), _MOST_NOTES):
        kind = key.removeprefix(ACKNOWLEDGED)
        time, _, user = note[:_LONGEST_NOTE].partition(" ")
        at = rfc3339.bounded(time, min(now, node.written_at(key) or now))
        if at is not None and TYPE.fullmatch(kind):
            found[kind] = at, printable(user)
    return found
