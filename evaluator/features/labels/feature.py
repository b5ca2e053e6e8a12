"""Node labels of violated rules."""

from collections.abc import Iterable, Iterator

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature, Written
from evaluator.core.model import node_labels
from evaluator.core.model.node import Node
from evaluator.core.model.node_labels import LabelConflict
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import assignments_of
from evaluator.core.report import Effect, Effects, PolicyPart, listed
from evaluator.core.wiring import Wired
from evaluator.core.writes.node_plan import Removal
from evaluator.features.labels.controller import LabelMetrics, NodeLabelController


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
