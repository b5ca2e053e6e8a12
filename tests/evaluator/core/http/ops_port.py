"""What the operations port of an evaluator shows: decisions on policies, nodes and readings that a test sets."""

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.readings.store import Store
from tests.clock import Clock


class OpsPort:
    def __init__(self):
        self.clock = Clock()
        self.metrics = Metrics()
        self.cluster = ClusterCache()
        self.store = Store(stale_after=30.0, started=self.clock())
        self.decider = DecisionLoop(
            self.cluster, self.store, Subscriptions(), self.metrics, clock=self.clock
        )

        self.uncached = {}

    async def read_pod(self, namespace, name):
        """Stands for the API server."""
        if isinstance(found := self.uncached.get((namespace, name)), Exception):
            raise found
        return found

    def know(self, *policies, nodes=("node-a",)):
        self.cluster.policies.replace(list(policies))
        self.cluster.nodes.replace([Node(NodeMeta(name=name)) for name in nodes])
        self.cluster.pods.replace([])
        self.decider.evaluate()
