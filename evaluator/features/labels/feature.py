"""Node labels of violated rules: the writer, what statuses say of conflicts with other field managers, and the log of these."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from structlog.stdlib import BoundLogger

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature, Written
from evaluator.core.kube.transport import KubeError
from evaluator.core.model import node_labels
from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import LabelApply, LabelConflict
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.policy_status import Effect, Effects, PolicyPart, listed
from evaluator.core.wiring import Wired
from evaluator.core.writes.node_plan import Removal, Step
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

_FIELD = ".metadata.labels."
"""Begin of the field of a conflict, as server-side apply writes it."""
_NAMED = 10
"""Nodes named in a line; the others are counted."""
_RATE, _BURST = 0.2, 20
"""Lines per second on average, and at once. A policy may be toggled every second; its status has the current conflicts."""


class ConflictLog:
    """Collects conflicts by label and value with `add()`; `write()` logs one warning for each."""

    def __init__(self, logger: BoundLogger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limited = RateLimitedLogger(logger, rate=_RATE, burst=_BURST, clock=clock)
        self._nodes: dict[tuple[str, str], list[LabelConflict]] = {}

    def add(self, conflicts: Iterable[LabelConflict]) -> None:
        """Collect conflicts that began."""
        for conflict in conflicts:
            self._nodes.setdefault((conflict.key, conflict.value), []).append(conflict)

    def write(self) -> None:
        """Log the conflicts added since the last call."""
        for (key, value), conflicts in self._nodes.items():
            self._limited.log(
                "label not set: another field manager owns it",
                label=key,
                desired=value,
                nodes=len(conflicts),
                some=",".join(conflict.node for conflict in conflicts[:_NAMED]),
                found=conflicts[0].theirs,
            )
        self._nodes.clear()


class LabelMetrics:
    """The metrics of node labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.label_writes = Counter(
            "plimsoll_label_writes",
            "Writes of node labels by result.",
            ["result"],
            registry=registry,
        )
        self.label_conflicts = Gauge(
            "plimsoll_label_conflicts",
            "Node labels that are not set because another field manager owns them.",
            registry=registry,
        )


class NodeLabelController(NodeWriter[LabelApply]):
    """Keeps the labels of all nodes as decided. Call `wake()` after new decisions, `wake(node)` after a node's labels changed."""

    what = "labels"

    def __init__(self, context: WriteContext, metrics: LabelMetrics) -> None:
        super().__init__(context, metrics.label_writes)
        self._metrics = metrics
        self._conflict_log = ConflictLog(log)
        self.conflicts: tuple[LabelConflict, ...] = ()
        """Labels that are not set because another field manager owns them with another value."""
        self.listeners: list[Callable[[], None]] = []
        """Called when `conflicts` changed."""

    def _desired(self) -> Mapping[str, Mapping[str, str]]:
        return self._decider.latest.labels

    def _compare(
        self, name: str, node: Node, desired: Mapping[str, str]
    ) -> node_labels.LabelComparison:
        return node_labels.compare(name, node.node_labels, desired)

    def _compared(self, steps: list[Step]) -> None:
        """Publish conflicts once for all nodes."""
        for step in steps:
            self._conflict_log.add(step.began)
        if any(step.began or step.ended for step in steps):
            self._conflict_log.write()
            self._publish_conflicts()

    def _publish_conflicts(self) -> None:
        # Sorted: statuses are made of it, and every replica must write the same.
        by_node = sorted(self._plan.conflicts.items())
        self.conflicts = tuple(itertools.chain.from_iterable(conflicts for _, conflicts in by_node))
        self._metrics.label_conflicts.set(len(self.conflicts))
        for listener in self.listeners:
            listener()

    def _shown(self, apply: LabelApply) -> str:
        return ",".join(f"{key}={value}" for key, value in sorted(apply.labels.items())) or "none"

    async def _send(self, apply: LabelApply) -> Node:
        """Apply the labels; on a conflict, apply again without the conflicting ones."""
        try:
            return await self._kube.apply_node_labels(apply)
        except KubeError as error:
            conflicting = conflicting_keys(error)
            if not conflicting:
                raise
            free = {key: value for key, value in apply.labels.items() if key not in conflicting}
            return await self._kube.apply_node_labels(LabelApply(apply.node, apply.uid, free))


def conflicting_keys(error: KubeError) -> set[str]:
    """The label keys in the causes of a 409 from server-side apply."""
    return {
        str(cause.get("field", ""))[len(_FIELD) :]
        for cause in error.causes
        if cause.get("reason") == "FieldManagerConflict"
        and str(cause.get("field", "")).startswith(_FIELD)
    }


class ConflictsByLabel:
    """All current label conflicts."""

    def __init__(self, conflicts: Iterable[LabelConflict]) -> None:
        self._by_label: dict[str, list[LabelConflict]] = {}
        for conflict in conflicts:
            self._by_label.setdefault(conflict.key, []).append(conflict)

    def of(self, decision: Decision) -> Iterator[LabelConflict]:
        """Yield the conflicts with labels that the policy sets."""
        if not self._by_label:
            return
        policy, labels = decision.policy, decision.labels
        rules = (rule for strategy in policy.strategies.values() for rule in strategy.rules)
        keys = [policy.key.name, *(label.key for rule in rules for label in rule.labels)]
        for key in dict.fromkeys(keys):
            for conflict in self._by_label.get(key, ()):
                if labels.get(conflict.node, {}).get(key) == conflict.value:
                    yield conflict


def problems(conflicts: Iterable[LabelConflict]) -> tuple[str, ...]:
    """Return a sentence for each conflict."""
    return tuple(
        f"label {conflict.key} on {conflict.node} is owned by another field manager (value "
        f"{conflict.theirs!r}): not set"
        for conflict in conflicts
    )


class LabelledNodes(Effects):
    """The nodes that a policy sets labels on."""

    def of(self, decision: Decision, table: MetricTable) -> Iterator[Effect]:
        """Yield the effect of enforcing a policy now."""
        labelled = table.nodes.at(assignments_of(decision.labels).labelled)
        yield Effect("nodesLabelled", f"label {listed(labelled, len(table.nodes))}", labelled)


class _Conflicts:
    """The part of statuses that names label conflicts."""

    def __init__(self, controller: NodeLabelController) -> None:
        self._controller = controller
        self._indexed = controller.conflicts
        self._by_label = ConflictsByLabel(self._indexed)

    def part(self, decision: Decision) -> PolicyPart:
        """Return the conflicts of a policy."""
        if self._indexed is not self._controller.conflicts:
            self._indexed = self._controller.conflicts
            self._by_label = ConflictsByLabel(self._indexed)
        return PolicyPart(varying_problems=problems(self._by_label.of(decision)))


def removals(_options: FeatureOptions, node: Node) -> Iterator[Removal]:
    """Yield the write that removes the labels that our field manager owns, for the command `clean`."""
    if apply := node_labels.compare(node.metadata.name, node.node_labels, {}).apply:
        labels = ", ".join(sorted(node.metadata.owned_labels))
        yield Removal(f"label {labels}", apply)


def wire(core: Core, _options: FeatureOptions) -> Wired:
    """Label nodes while this replica leads."""
    metrics = LabelMetrics(core.metrics.registry)
    controller = NodeLabelController(core.writes, metrics)
    core.cluster.listeners.labels.append(controller.wake)
    core.connect(controller)
    controller.listeners.append(core.contributions.changed)
    return Wired(
        loops=[controller.run], effects=LabelledNodes(), policy_part=_Conflicts(controller).part
    )


FEATURE = Feature(
    name="labels",
    options=FeatureOptions,
    metrics=LabelMetrics,
    wire=wire,
    written=Written(
        what="labels that its field manager owns", options=FeatureOptions, removals=removals
    ),
)
