"""A small cluster with one policy, whose pods are answered for, bound and removed; what decisions say of it."""

import numpy as np

from evaluator.core.catalog import shipped
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.resources import RESOURCES
from evaluator.core.placement.ledger import PlacedPod
from evaluator.core.placement.measures import Measures
from evaluator.core.placement.placements import Placements
from evaluator.core.policy import parse
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from wire.codec import Delta

CORES = "node_cpu_used_cores"
"""Over 15 s, in cores."""
WINDOW = 16.0
CAPACITY = (8000.0, 32e9, 110.0, 0.0, 0.0)


def vector(cpu=0, memory=0):
    """What a pod requests: milli-CPU and bytes."""
    return tuple({"cpu": cpu, "memory": memory, "pods": 1}.get(name, 0) for name in RESOURCES)


class World:
    """Nodes with readings of one metric, which a policy ranks by and limits. Time begins at 1000 s."""

    def __init__(
        self, values, *, metric=CORES, operator="LessThan", most=None, leave=None, annotations=None
    ):
        self.nodes = NodeIndex(f"n{number:02}" for number in range(len(values)))
        self.metric, self.now = metric, 1000.0
        strategies = {"scheduleonmetric": {"rules": [{"metricname": metric, "operator": operator}]}}
        if most is not None:
            rules = [{"metricname": metric, "operator": "GreaterThan", "target": most}]
            strategies["dontschedule"] = {"rules": rules}
        if leave is not None:
            rules = [{"metricname": metric, "operator": "GreaterThan", "target": leave}]
            strategies["deschedule"] = {"rules": rules}
        meta = {"name": "demo", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
        self.policy = parse.parse({"metadata": meta, "spec": {"strategies": strategies}})
        self.key = self.policy.key
        self.store = Store(stale_after=30.0, started=0.0)
        self.store.subscribe([metric])
        self.placements = Placements(Measures(shipped), lambda _node: CAPACITY, stale_after=30.0)
        self.decisions = None
        self.read(values)

    def read(self, values=None):
        """All nodes report these values, or their last ones, and decisions are made."""
        if values is not None:
            self.values = dict(zip(self.nodes, map(float, values), strict=True))
        for node, value in self.values.items():
            self.store.report(node, Delta({self.metric: value}), self.now)
        self.decisions = decide(
            [self.policy],
            self.nodes,
            self.store,
            now=self.now,
            before=self.decisions,
            without_departed=self.placements.without_departed,
        )
        for _ in self.placements.follow(self.decisions, self.now):
            pass

    def pod(self, uid, *, namespace="ns", policy="demo", **requests):
        """A pod of a policy."""
        return PlacedPod(uid, PolicyKey(namespace, policy), vector(**requests))

    def bind(self, uid, node, *, age=0.0, **pod):
        """A pod was bound."""
        bound = self.pod(uid, **pod)
        self.placements.bound(bound, node, self.now - age, self.now)
        return bound

    def leave(self, uid, node, **pod):
        """A pod left its node."""
        self.placements.gone(self.pod(uid, **pod), node, self.now)

    @property
    def plain(self):
        """The decision by readings alone."""
        return self.decisions.policies[self.key]

    @property
    def counted(self):
        """The decision with the pods placed since."""
        return self.placements.counted(self.plain, self.decisions, self.now)

    @property
    def scores(self):
        """Node → score."""
        return dict(self.counted.decision.ranking.scores(self.nodes))

    @property
    def pods(self):
        """How many pods count on each node."""
        added = self.counted.added.get(self.metric)
        return np.zeros(len(self.nodes)) if added is None else added.placed

    @property
    def amounts(self):
        """What they add to the reading of each node."""
        added = self.counted.added.get(self.metric)
        return np.zeros(len(self.nodes)) if added is None else added.unbiased
