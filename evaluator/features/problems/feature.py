"""Problems that agents find, as node conditions and Events; acknowledgements of problems, for the agents."""

import time
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from evaluator.core.assembly import Core
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.feature import Feature, Written
from evaluator.core.kube.node_events import NodeEventWriter
from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.page_fields import EvaluatorFields, Fields, NodeFields
from evaluator.core.pages.part import PagePart
from evaluator.core.readings.reported import NodeProblems
from evaluator.core.signals import (
    NodeActionsChanged,
    NodeAnnotationsChanged,
    ProblemAcknowledged,
    ProblemConditionsChanged,
    ProblemOccurred,
    Publish,
    StopsChanged,
    on,
    on_node,
    unheard,
    wakes,
)
from evaluator.core.wiring import Wired
from evaluator.core.writes import conditions
from evaluator.core.writes.node_plan import Removal
from evaluator.core.writes.node_writer import while_leading
from evaluator.features.problems import plan
from evaluator.features.problems.controller import (
    ProblemEventController,
    ProblemMetrics,
    condition_writer,
)
from plimsoll import rfc3339
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(FeatureOptions):
    """Problems that agents find in logs. Which become conditions and Events."""

    problem_conditions: frozenset[str] = option(
        "problemConditions",
        frozenset(),
        "types of the node conditions that agents' problems (--problems.config) may set, such as KernelDeadlock,ReadonlyFilesystem",
        metavar="TYPES",
        parse=plan.condition_types,
    )
    problem_events: bool = option(
        "problemEvents", False, "write Events on nodes about problems that their agents find"
    )


class Acknowledgement(Fields):
    """When a problem was acknowledged, and by whom."""

    at: str
    by: str | None


class NodeProblem(Fields):
    """A problem that a node's agent looks for."""

    type: str
    active: bool
    reason: str
    message: str
    since: str | None
    condition: str
    """Whether the node's condition is written, and if not, why."""
    acknowledged: Acknowledgement | None


class NodeProblemFields(NodeFields):
    """The problems of a node."""

    problems: list[NodeProblem]


class ProblemCounts(Fields):
    """Nodes with a problem, and conditions that others own."""

    nodes: int
    foreign_conditions: int


class ProblemCountFields(EvaluatorFields):
    """The problems of all nodes."""

    problems: ProblemCounts


class ShownProblems:
    """What pages show of problems."""

    def __init__(self, cluster: ClusterCache, problems: NodeProblems, permitted: Set[str]) -> None:
        self._cluster = cluster
        self._problems = problems
        self._permitted = permitted

    def node(self, name: str) -> NodeProblemFields:
        """Return the problems of a node, who owns their conditions, and who acknowledged them."""
        found, node = self._problems.conditions(name), self._cluster.nodes.objects.get(name)
        if not found or node is None:
            return NodeProblemFields(problems=[])
        others = plan.foreign(node, self._permitted)
        now = time.time()
        acknowledged = plan.acknowledgements(node, now)
        problems = [
            NodeProblem(
                type=c.type,
                active=c.active,
                reason=c.reason,
                message=c.message,
                since=rfc3339.seconds(min(c.since, now)) if c.since else None,
                condition=self._written(c.type, others),
                acknowledged=_shown(acknowledged.get(c.type)),
            )
            for c in found
        ]
        return NodeProblemFields(problems=problems)

    def _written(self, kind: str, others: dict[str, str]) -> str:
        if kind not in self._permitted:
            return "not written: not in --problemConditions"
        if kind in others:
            return f"owned by {others[kind] or 'another reporter'}, which keeps it"
        return "written"

    def evaluator(self) -> ProblemCountFields:
        """Return how many nodes have a problem, and how many conditions others own."""
        nodes = self._cluster.nodes.objects
        active = [
            name for name in nodes if any(c.active for c in self._problems.conditions(name) or ())
        ]
        return ProblemCountFields(problems=ProblemCounts(len(active), self.foreign()))

    def foreign(self) -> int:
        """Return how many conditions of permitted types other reporters own."""
        return sum(
            len(plan.foreign(node, self._permitted))
            for name, node in self._cluster.nodes.objects.items()
            if self._problems.conditions(name)
        )


def _shown(acknowledged: tuple[float, str] | None) -> Acknowledgement | None:
    if acknowledged is None:
        return None
    at, user = acknowledged
    return Acknowledgement(rfc3339.seconds(at), user or None)


class Acknowledgements:
    """Passes acknowledgements of nodes' annotations on to their agents."""

    def __init__(
        self,
        cluster: ClusterCache,
        problems: NodeProblems,
        publish: Publish = unheard,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`wall` returns Unix time."""
        self._cluster = cluster
        self._problems = problems
        self._publish = publish
        self._wall = wall

    def changed(self, name: str) -> None:
        """A node's annotations changed, or it was added or deleted."""
        if (node := self._cluster.nodes.objects.get(name)) is not None:
            found = plan.acknowledgements(node, self._wall())
            if self._problems.acknowledge(name, {kind: at for kind, (at, _) in found.items()}):
                self._publish(ProblemAcknowledged(name))


def removals(_options: FeatureOptions, node: Node) -> Iterator[Removal]:
    """Yield the write that removes the conditions of problems from a node, for the command `clean`."""
    yield from conditions.removals(node, plan.MANAGER)


def wire(core: Core, options: ProblemOptions) -> Wired:
    """Show problems on every replica; write while this one leads."""
    metrics = ProblemMetrics(core.metrics.registry)
    problems, permitted = core.problems, options.problem_conditions
    found = plan.ProblemConditions(problems, permitted, time.time)
    writer = condition_writer(core.writes, found, metrics.writes)
    happened = ProblemEventController(
        NodeEventWriter(
            core.api,
            core.cluster,
            metrics.dropped,
            is_leader=core.fence.is_leader,
            part=core.isolation.part("events of problems"),
        )
    )
    acknowledged = Acknowledgements(core.cluster, problems, core.signals.publish)
    reacts, loops = [on_node(NodeAnnotationsChanged, acknowledged.changed)], []
    if permitted:
        reacts += while_leading(writer)
        reacts += wakes(writer.start_over, StopsChanged)
        reacts.append(on_node(NodeActionsChanged, writer.wake))
        reacts.append(on_node(ProblemConditionsChanged, writer.wake))
        loops.append(writer.run)
    if options.problem_events:
        reacts.append(on(ProblemOccurred, happened.occurred))
        loops.append(happened.run)
    shown = ShownProblems(core.cluster, problems, permitted)
    metrics.foreign.set_function(shown.foreign)
    return Wired(
        reacts=reacts, loops=loops, page=PagePart(node=shown.node, evaluator=shown.evaluator)
    )


FEATURE = Feature(
    name="problems",
    options=ProblemOptions,
    metrics=ProblemMetrics,
    wire=wire,
    pages=(NodeProblemFields, ProblemCountFields),
    written=Written(
        what=f"conditions of problems, which the field manager {plan.MANAGER} owns",
        options=FeatureOptions,
        removals=removals,
    ),
)
