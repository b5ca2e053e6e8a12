"""The metrics of taints and conditions, and of the limits of nodes."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from evaluator.core.metrics import PolicyGauge


class NodeActionMetrics:
    """The metrics of taints and conditions, and of the limits of nodes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.taint_writes = Counter(
            "plimsoll_taint_writes",
            "Writes of node taints by result.",
            ["result"],
            registry=registry,
        )
        self.condition_writes = Counter(
            "plimsoll_condition_writes",
            "Writes of node conditions by result.",
            ["result"],
            registry=registry,
        )
        self.tainted_nodes = Gauge(
            "plimsoll_tainted_nodes",
            "Nodes with a taint of Plimsoll.",
            registry=registry,
        )
        self.acted_nodes = PolicyGauge(
            "plimsoll_policy_acted_nodes",
            "Nodes with a hard taint of a policy, or from which its pods are evicted.",
            ["namespace", "policy"],
            registry=registry,
        )
        self.held_back_nodes = PolicyGauge(
            "plimsoll_policy_held_back_nodes",
            "Violating nodes that are not acted on because of max-nodes or --maxActedNodes.",
            ["namespace", "policy"],
            registry=registry,
        )
