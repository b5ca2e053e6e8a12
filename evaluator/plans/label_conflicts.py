"""Labels that somebody else has, sorted by what they are, so that each policy finds those that it wants."""

from collections.abc import Iterable, Iterator

from evaluator.model.node_labels import LabelConflict
from evaluator.policy.decide import Decision


class ConflictsByLabel:
    """All labels that could not be set, at one moment."""

    def __init__(self, conflicts: Iterable[LabelConflict]) -> None:
        self._by_label: dict[str, list[LabelConflict]] = {}
        for conflict in conflicts:
            self._by_label.setdefault(conflict.key, []).append(conflict)

    def of(self, decision: Decision) -> Iterator[LabelConflict]:
        """Those that a policy wants."""
        if not self._by_label:
            return
        policy, wanted = decision.policy, decision.labels
        rules = (rule for strategy in policy.strategies.values() for rule in strategy.rules)
        labels = [policy.key.name, *(label.key for rule in rules for label in rule.labels)]
        for key in dict.fromkeys(labels):
            for conflict in self._by_label.get(key, ()):
                if wanted.get(conflict.node, {}).get(key) == conflict.value:
                    yield conflict
