"""Reads from a node the taints and conditions that show that it violated a policy before this process started."""

from evaluator.core.model.node import Node
from evaluator.features.node_actions import names
from evaluator.features.node_actions.conditions import own_conditions


class Records:
    """The records of nodes. `prefixes`: those of our taint keys."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes

    def of(self, node: Node) -> dict[str, str]:
        """Return our taints and conditions of a node, by record."""
        records: dict[str, str] = {}
        for taint in node.spec.taints or ():
            for prefix in self._prefixes:
                if taint.key.startswith(prefix):
                    suffix = taint.key.removeprefix(prefix)
                    records[names.taint_record(suffix, taint.effect)] = taint.value
        for kind, condition in own_conditions(node).items():
            records[names.condition_record(kind)] = f"{condition.status}/{condition.reason}"
        return records
