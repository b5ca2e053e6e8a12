"""Indexes label conflicts by label key, to find those of each policy."""

from collections.abc import Iterable, Iterator

from evaluator.core.model.node_labels import LabelConflict
from evaluator.core.policy.decide import Decision


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
