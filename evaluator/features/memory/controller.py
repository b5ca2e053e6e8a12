"""Writes the scores of nodes where a violation begins or ends: one annotation, with a field manager of its own."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from prometheus_client import CollectorRegistry, Counter

from evaluator.core.guard import Guard
from evaluator.core.metrics import PolicyGauge
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.node_index import NodeIndex, NodeMask, union
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.label_sets import LabelAssignment, LabelAssignments
from evaluator.core.policy.strategies import COMPLIANCE
from evaluator.core.readings.reported import CauseOf, no_cause
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from evaluator.features.memory.readings import Memories, remembered
from evaluator.features.memory.scores import ANNOTATION, MOST_DEVICES, NodeMemory, devices

FIELD_MANAGER = "plimsoll-memory"
_VIOLATED, _UNDECIDED = "violated", "undecided"


class MemoryMetrics:
    """The metrics of the memory."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.writes = Counter(
            "plimsoll_memory_writes",
            "Writes of the scores of nodes, by result.",
            ["result"],
            registry=registry,
        )
        for result in ("ok", "error"):
            self.writes.labels(result)
        self.flapping_nodes = PolicyGauge(
            "plimsoll_policy_flapping_nodes",
            "Nodes that violated the policy so often that they stay in violation.",
            ["namespace", "policy"],
            registry=registry,
        )


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """A write of the annotation of a node. `shown`: the policies that it violates, for the log."""

    node: str
    shown: str
    fields: frozenset[str] = frozenset({ANNOTATION})


def memory_writer(
    context: WriteContext, transitions: "Transitions", writes: Counter
) -> NodeWriter[MemoryWrite]:
    """Return the writer of annotations. `wake()` it after new decisions, `wake(node)` after a node's annotation changed."""
    return NodeWriter(
        context,
        "memory",
        plan=transitions.verdicts,
        compare=transitions.compare,
        send=transitions.send,
        writes=writes,
    )


class Transitions:
    """Violations that begin or end on nodes, as writes of annotations.

    What is written is computed from the node as cached, and valid for that version of it alone: a write that is based on an
    older version is refused by the API server, so no violation is counted twice, whoever writes.
    """

    def __init__(
        self,
        context: WriteContext,
        memories: Memories,
        *,
        wall: Callable[[], float] = time.time,
        cause_of: CauseOf = no_cause,
    ) -> None:
        """`wall` returns Unix time. `cause_of`: what readings come from, which may be a device."""
        self._kube = context.kube
        self._cluster = context.cluster
        self._decider = context.decider
        self._part = context.isolation.part("verdicts of the memory")
        self._memories = memories
        self._wall = wall
        self._cause_of = cause_of
        self._decided_on: tuple[Decisions, frozenset[PolicyKey]] | None = None
        self._verdicts = LabelAssignments(context.decider.latest.table.nodes, ())

    def verdicts(self) -> LabelAssignments:
        """Return, by node and policy with a memory, whether it is violated, or has no verdict yet."""
        decisions, counting = self._decider.latest, self._memories.counting
        known = self._decided_on
        if known is None or known[0] is not decisions or known[1] != counting:
            self._decided_on = decisions, counting
            assigned = _verdicts(decisions, self._memories, self._part)
            self._verdicts = LabelAssignments(decisions.table.nodes, assigned)
        return self._verdicts

    def compare(self, name: str, node: Node, verdicts: Mapping[str, str]) -> MemoryWrite | None:
        """Return a write if a violation begins or ends on a node, or its annotation is of another machine."""
        memory = remembered(node)
        if self._after(name, memory, verdicts) is memory:
            return None
        violated = sorted(policy for policy, verdict in verdicts.items() if verdict == _VIOLATED)
        shown = f"violates {', '.join(violated)}" if violated else "no violation"
        return MemoryWrite(name, shown)

    def _after(self, node: str, memory: NodeMemory, verdicts: Mapping[str, str]) -> NodeMemory:
        by_key = {_key(name): verdict for name, verdict in verdicts.items()}
        half_lives, counting = self._memories.half_lives, self._memories.counting
        undecided = {key for key, verdict in by_key.items() if verdict == _UNDECIDED}
        return memory.after(
            [key for key, verdict in by_key.items() if verdict == _VIOLATED and key in counting],
            undecided | (half_lives.keys() - counting),
            half_lives,
            self._wall(),
            partial(self._devices, node),
        )

    def _devices(self, node: str, key: PolicyKey) -> list[str]:
        """Return the devices that the causes of a policy's violation on a node name."""
        decisions = self._decider.latest
        position, decision = decisions.table.nodes.position.get(node), decisions.policies.get(key)
        if position is None or decision is None:
            return []
        found = []
        for name in COMPLIANCE:
            state = decision.states.get(name)
            if state is None:
                continue
            for number in state.found.per_rule[position].nonzero()[0].tolist():
                metric = state.rules[number].base
                if (column := decisions.table.columns.get(metric)) is not None:
                    cause = self._cause_of(metric, node, column.source_at(position))
                    found += devices(cause)
        return list(dict.fromkeys(found))[:MOST_DEVICES]

    async def send(self, write: MemoryWrite) -> Node:
        """Write the annotation of a node, from the node and the decisions as they are now. Raises KubeError."""
        node = self._cluster.nodes.objects[write.node]
        found = self._after(write.node, remembered(node), self.verdicts().get(write.node, {}))
        text = found.text()
        annotations = {ANNOTATION: text} if text else {}
        return await self._kube.apply_node_annotations(node, annotations, manager=FIELD_MANAGER)


def _key(name: str) -> PolicyKey:
    namespace, _, policy = name.partition("/")
    return PolicyKey(namespace, policy)


def _verdicts(
    decisions: Decisions, memories: Memories, guard: Guard
) -> tuple[LabelAssignment, ...]:
    """Return the nodes that violate each policy with a memory, and those without a verdict: all, of one that does not count.

    `guard` takes what one policy raises: then no node has a verdict of it.
    """
    found: list[LabelAssignment] = []
    nodes, counting = decisions.table.nodes, memories.counting
    for key in sorted(memories.half_lives.keys() & decisions.policies.keys()):
        none = (LabelAssignment(str(key), _UNDECIDED, NodeMask(nodes, nodes.all)),)
        if key in counting:
            assign = partial(_assigned, decisions.policies[key], nodes)
            found += guard.run(str(key), assign, none)
        else:
            found += none
    return tuple(found)


def _assigned(decision: Decision, nodes: NodeIndex) -> tuple[LabelAssignment, ...]:
    """Return the nodes that violate a policy, and those without a verdict."""
    states = [decision.states[name] for name in COMPLIANCE if name in decision.states]
    violated = union((state.found.violated for state in states), nodes)
    undecided = np.zeros(len(nodes), bool)
    undecided[nodes.find(sorted(decision.unreported))] = True
    name = str(decision.policy.key)
    return (
        LabelAssignment(name, _VIOLATED, NodeMask(nodes, violated)),
        LabelAssignment(name, _UNDECIDED, NodeMask(nodes, undecided & ~violated)),
    )
