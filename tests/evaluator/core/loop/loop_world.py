"""A decision loop with its caches and store, on a clock that a test sets."""

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.names import ObjectMeta, PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.readings.store import Store
from tests.clock import Clock
from wire.codec import Delta

KEY = PolicyKey("ns", "demo-policy")
STALE = 30.0


class DecisionLoopWorld:
    def __init__(self, stale_after=STALE, clock=None, **settings):
        self.clock = clock or Clock()
        self.cluster = ClusterCache(stale_after=60.0)
        self.store = Store(stale_after=stale_after, started=self.clock())
        self.subscriptions = Subscriptions()
        self.metrics = Metrics()
        self.decider = DecisionLoop(
            self.cluster,
            self.store,
            self.subscriptions,
            self.metrics,
            clock=self.clock,
            **settings,
        )
        self.cluster.signals.connect(self.decider.reactions())

    def know(self, *policies, nodes=("node-a", "node-b")):
        self.cluster.policies.replace(list(policies))
        self.cluster.nodes.replace([Node(ObjectMeta(name=name, uid=name)) for name in nodes])
        self.cluster.pods.replace([])

    def hear(self, **values):
        """Full reports of health_metric; `_` in a node name stands for `-`."""
        for node, value in values.items():
            self.store.report(
                node.replace("_", "-"), Delta({"health_metric": value}), self.clock.now
            )

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)
