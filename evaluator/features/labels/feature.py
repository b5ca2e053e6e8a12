"""Node labels of violated rules: the writer, what statuses say of conflicts with other field managers, and the log of these."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge
from structlog.stdlib import BoundLogger

from evaluator.core.assembly import Core
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.feature import Feature, Written
from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.model import node_labels
from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import LabelApply, LabelConflict
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.policy.types import Policy
from evaluator.core.policy_status import Effect, Effects, PolicyPart, listed
from evaluator.core.signals import (
    NodeLabelsChanged,
    PolicyReportChanged,
    Publish,
    StopsChanged,
    on_node,
    unheard,
    wakes,
)
from evaluator.core.wiring import Wired
from evaluator.core.writes.kept import KeptOnNodes
from evaluator.core.writes.node_plan import Removal
from evaluator.core.writes.node_writer import NodeWriter, WriteContext, while_leading
from evaluator.core.writes.undone import problems as undone_problems
from plimsoll import logs
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.text import printable

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
                manager=conflicts[0].manager or "unknown",
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

    def conflicts(self, decision: Decision) -> Iterator[LabelConflict]:
        """Yield the conflicts with labels that the policy sets."""
        if not self._by_label:
            return
        policy, labels = decision.policy, decision.labels
        for key in dict.fromkeys(keys(policy)):
            for conflict in self._by_label.get(key, ()):
                if labels.get(conflict.node, {}).get(key) == conflict.value:
                    yield conflict


def problems(conflicts: Iterable[LabelConflict]) -> tuple[str, ...]:
    """Return a sentence for each conflict."""
    return tuple(
        f"label {conflict.key} on {conflict.node} is owned by another field manager"
        f"{f', {printable(conflict.manager)}' if conflict.manager else ''} (value {conflict.theirs!r}): not set"
        for conflict in conflicts
    )


def _with_managers(conflicts: Iterable[LabelConflict]) -> list[tuple[LabelConflict, str]]:
    """Return conflicts with their field managers, which do not count when conflicts are compared."""
    return [(conflict, conflict.manager) for conflict in conflicts]


class LabelConflicts:
    """The labels that are not set because another field manager owns them with another value."""

    def __init__(
        self,
        cluster: ClusterCache,
        metrics: LabelMetrics,
        publish: Publish = unheard,
        kept: KeptOnNodes | None = None,
    ) -> None:
        self._cluster = cluster
        self._kept = kept
        self._publish = publish
        self._metrics = metrics
        self._log = ConflictLog(log)
        self._by_node: dict[str, tuple[LabelConflict, ...]] = {}
        self._changed = False
        self._by_label = ConflictsByLabel(())
        self.latest: tuple[LabelConflict, ...] = ()

    def compare(self, name: str, node: Node, desired: Mapping[str, str]) -> LabelApply | None:
        """Return the write that gives a node the desired labels, if any, without those in conflict, which are noted."""
        kept: Mapping[str, str] | None = desired
        if self._kept is not None:
            kept = self._kept.desired(desired, node.node_labels.ours)
        if kept is None:
            return None
        found = node_labels.compare(name, node.node_labels, kept)
        self._note(name, found.conflicts)
        return found.apply

    def node_changed(self, name: str) -> None:
        """A deleted node has no conflicts."""
        if name not in self._cluster.nodes.objects:
            self._note(name, ())

    def _note(self, node: str, conflicts: tuple[LabelConflict, ...]) -> None:
        before = self._by_node.pop(node, ())
        if conflicts:
            self._by_node[node] = conflicts
        if _with_managers(conflicts) != _with_managers(before):
            self._changed = True
            self._log.add(conflict for conflict in conflicts if conflict not in before)

    def publish(self) -> None:
        """Publish what changed since the last call, once for all nodes."""
        if not self._changed:
            return
        self._changed = False
        self._log.write()
        # Sorted: statuses are made of it, and every replica must write the same.
        by_node = sorted(self._by_node.items())
        self.latest = tuple(itertools.chain.from_iterable(conflicts for _, conflicts in by_node))
        self._by_label = ConflictsByLabel(self.latest)
        self._metrics.label_conflicts.set(len(self.latest))
        self._publish(PolicyReportChanged())

    def problems(self, decision: Decision) -> tuple[str, ...]:
        """Return a sentence for each conflict of a policy."""
        return problems(self._by_label.conflicts(decision))


class Shown:
    """What statuses, Events and pages say of the labels of a policy."""

    def __init__(self, conflicts: LabelConflicts, writer: NodeWriter[LabelApply]) -> None:
        self._conflicts = conflicts
        self._writer = writer

    def part(self, decision: Decision) -> PolicyPart:
        """Return the part of a policy's status that names conflicts with other field managers, and undone writes."""
        labels, nodes = decision.labels, assignments_of(decision.labels).nodes
        undone = (one for one in self._writer.undone() if one.field in labels.get(one.node, ()))
        said = (*self._conflicts.problems(decision), *undone_problems("label", undone, len(nodes)))
        return PolicyPart(varying_problems=said)


def label_writer(
    context: WriteContext, conflicts: LabelConflicts, writes: Counter
) -> NodeWriter[LabelApply]:
    """Return the writer of the labels of all nodes. `wake()` it after new decisions, `wake(node)` after a node's labels changed."""
    return NodeWriter(
        context,
        "labels",
        plan=lambda: context.decider.latest.labels,
        compare=conflicts.compare,
        send=partial(send, context.kube),
        writes=writes,
        compared=conflicts.publish,
    )


async def send(kube: Kube, apply: LabelApply) -> Node:
    """Apply labels; on a conflict, apply again without the conflicting ones. Raises KubeError."""
    try:
        return await kube.apply_node_labels(apply)
    except KubeError as error:
        conflicting = conflicting_keys(error)
        if not conflicting:
            raise
        free = {key: value for key, value in apply.labels.items() if key not in conflicting}
        return await kube.apply_node_labels(replace(apply, labels=free))


class LabelledNodes(Effects):
    """The nodes that a policy sets labels on."""

    def effects(self, decision: Decision, table: MetricTable) -> Iterator[Effect]:
        """Yield the effect of enforcing a policy now."""
        labelled = table.nodes.names_at(assignments_of(decision.labels).labelled)
        yield Effect("nodesLabelled", f"label {listed(labelled, len(table.nodes))}", labelled)


def keys(policy: Policy) -> Iterator[str]:
    """Yield the keys of the labels that a policy may set."""
    yield policy.key.name
    for rule in policy.rules:
        yield from (label.key for label in rule.labels)


def removals(_options: FeatureOptions, node: Node) -> Iterator[Removal]:
    """Yield the write that removes the labels that our field manager owns, for the command `clean`."""
    if apply := node_labels.compare(node.metadata.name, node.node_labels, {}).apply:
        labels = ", ".join(sorted(node.metadata.owned_labels))
        yield Removal(f"label {labels}", apply)


def wire(core: Core, _options: FeatureOptions) -> Wired:
    """Label nodes while this replica leads."""
    metrics = LabelMetrics(core.metrics.registry)
    kept = KeptOnNodes(core.writes.stops, core.loop, keys)
    conflicts = LabelConflicts(core.cluster, metrics, core.signals.publish, kept)
    writer = label_writer(core.writes, conflicts, metrics.label_writes)
    reacts = (
        on_node(NodeLabelsChanged, conflicts.node_changed),
        on_node(NodeLabelsChanged, writer.wake),
        *while_leading(writer),
        *wakes(writer.start_over, StopsChanged),
    )
    return Wired(
        reacts=reacts,
        loops=[writer.run],
        effects=LabelledNodes(),
        policy_part=Shown(conflicts, writer).part,
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
