"""Writes the conditions of problems to nodes, and Events of problems, while this replica leads; their metrics."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from evaluator.core.kube.node_events import NodeEventWriter
from evaluator.core.kube.waiting_events import NodeEvent
from evaluator.core.model.node import Node
from evaluator.core.signals import ProblemOccurred
from evaluator.core.writes.conditions import ConditionApply, ConditionWrites
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from evaluator.features.problems.plan import MANAGER, ProblemConditions


class ProblemMetrics:
    """The metrics of problems."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.writes = Counter(
            "plimsoll_problem_condition_writes",
            "Writes of node conditions of problems, by result.",
            ["result"],
            registry=registry,
        )
        for result in ("ok", "error"):
            self.writes.labels(result)
        self.dropped = Counter(
            "plimsoll_problem_events_dropped",
            "Events of problems that were not written: too many at once, or refused by the API server.",
            registry=registry,
        )
        self.foreign = Gauge(
            "plimsoll_problem_conditions_foreign",
            "Node conditions of --problemConditions that another reporter owns and keeps.",
            registry=registry,
        )


def condition_writer(
    context: WriteContext, conditions: ProblemConditions, writes: Counter
) -> NodeWriter[ConditionApply]:
    """Return the writer of the conditions of problems. `wake(node)` it after the problems of a node changed."""
    sent = ConditionWrites(context.kube, MANAGER, conditions.condition)

    def compare(name: str, node: Node, wanted: Mapping[str, str]) -> ConditionApply | None:
        """They are of no policy: they stay while all policies are frozen."""
        return None if context.stops().others.frozen else sent.compare(name, node, wanted)

    return NodeWriter(
        context,
        "problems",
        plan=lambda: conditions,
        compare=compare,
        send=sent.send,
        writes=writes,
    )


class ProblemEventController:
    """Writes an Event on the node for each problem that occurs; repeated ones are counted in one Event."""

    def __init__(self, writer: NodeEventWriter) -> None:
        self._writer = writer

    def occurred(self, occurred: ProblemOccurred) -> None:
        """Write an event of a node soon."""
        self._writer.want(occurred.node, NodeEvent(*occurred.event))

    async def run(self) -> None:
        """Write until cancelled."""
        await self._writer.run()
