"""Reconciles node labels with the decisions, and logs conflicts with other field managers."""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from structlog.stdlib import BoundLogger

from evaluator.core.kube.transport import KubeError
from evaluator.core.model import node_labels
from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import LabelApply, LabelConflict
from evaluator.core.writes.node_plan import Step
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger

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


log = logs.get(__name__)

_FIELD = ".metadata.labels."


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
