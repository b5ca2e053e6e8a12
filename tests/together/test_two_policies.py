"""Two policies on the same nodes, whose pods are evicted and placed again: the number of evictions stays bounded."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.catalog import shipped
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import POLICY_LABEL, PolicyKey
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeStatus
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Owner, Pod, PodMeta, PodSpec
from evaluator.core.placement.ledger import PlacedPod
from evaluator.core.placement.measures import Measures
from evaluator.core.placement.placements import Placements
from evaluator.core.policy import parse
from evaluator.core.policy.decide import decide
from evaluator.core.protocol import Args
from evaluator.core.readings.store import Store
from evaluator.features.evictions.plan import MOST_PER_POD, EvictionRate
from evaluator.features.extender.verbs import CountingVerbs
from lab.adapters.evictions import SimulatedEvictor
from tests.evaluator.core.placement.worlds import CAPACITY, CORES, vector
from tests.examples import examples
from wire.codec import Delta

STEP, LIMIT = 5.0, 6.0
KEYS = (PolicyKey("a", "balance"), PolicyKey("b", "balance"))


def policy(key, metric):
    """Evicts from nodes above the limit, and places on others, the emptiest first."""
    above = {"rules": [{"metricname": metric, "operator": "GreaterThan", "target": str(LIMIT)}]}
    least = {"rules": [{"metricname": metric, "operator": "LessThan"}]}
    strategies = {"deschedule": above, "dontschedule": above, "scheduleonmetric": least}
    meta = {"name": key.name, "namespace": key.namespace, "uid": key.namespace}
    return parse.parse({"metadata": meta, "spec": {"strategies": strategies}})


class Cluster:
    """Nodes of 8 cores. Each pod uses `use` cores and requests `requested`; evicted ones come back and are placed again."""

    def __init__(self, nodes, pods, *, use, requested, metric, seed):
        self.rng, self.now, self.use = random.Random(seed), 1000.0, use
        self.nodes = NodeIndex(f"n{number}" for number in range(nodes))
        self.metric, self.requests = metric, vector(cpu=round(1000 * requested))
        self.policies = [policy(key, metric) for key in KEYS]
        self.store = Store(stale_after=30.0, started=0.0)
        self.store.subscribe([metric])
        ready = NodeStatus([NodeCondition("Ready", "True")])
        self.feasible = FeasibleNodes({n: Node(NodeMeta(n), status=ready) for n in self.nodes})
        self.running = PodsByPolicy(lambda _pod: True)
        self.placements = Placements(Measures(shipped), lambda _node: CAPACITY, stale_after=30.0)
        self.verbs = CountingVerbs(self.placements)
        self.evictor = SimulatedEvictor(EvictionRate(10.0, 1))
        self.on, self.waiting, self.evicted, self.decisions = {}, [], [], None
        self.number = 0
        for number in range(pods):  # all on the first nodes, which are far too full
            self.place(KEYS[number % 2], self.nodes[number % max(1, nodes // 3)])

    def place(self, key, node):
        self.number += 1
        uid = f"{key.namespace}{self.number}"
        labels = {POLICY_LABEL: key.name}
        owner = Owner("ReplicaSet", key.namespace, key.namespace)
        meta = PodMeta(name=uid, namespace=key.namespace, uid=uid, labels=labels, controller=owner)
        pod = Pod(meta, PodSpec(node_name=node, requests=self.requests))
        self.on[uid] = (key, node, pod)
        self.running.change(None, pod)
        self.feasible.change_pod(None, pod)
        self.placements.bound(PlacedPod(uid, key, self.requests), node, self.now, self.now)

    def leave(self, pod):
        key, node, _ = self.on.pop(pod.metadata.uid)
        self.running.change(pod, None)
        self.feasible.change_pod(pod, None)
        self.placements.gone(PlacedPod(pod.metadata.uid, key, self.requests), node, self.now)
        self.waiting.append(key)
        self.evicted.append((self.now, key))

    def step(self):
        used = dict.fromkeys(self.nodes, 0.0)
        for _, node, _ in self.on.values():
            used[node] += self.use
        for node, cores in used.items():
            self.store.report(node, Delta({self.metric: min(cores, 8.0)}), self.now)
        self.decisions = decide(
            self.policies,
            self.nodes,
            self.store,
            now=self.now,
            before=self.decisions,
            without_departed=self.placements.without_departed,
        )
        for _ in self.placements.follow(self.decisions, self.now):
            pass
        for key in [self.waiting.pop() for _ in self.waiting]:
            if (node := self.chosen(key)) is None:
                self.waiting.append(key)
            else:
                self.place(key, node)
        for _, _, pod in self.on.values():
            self.feasible.for_pod(pod)
        for _ in self.feasible.catching_up():
            pass
        due = self.evictor.due(
            self.decisions, self.running, self.feasible, self.now, self.placements
        )
        for pod in due:
            self.leave(pod)
        self.now += STEP

    def chosen(self, key):
        """The node that kube-scheduler chooses by the extender's answers alone."""
        args = Args(key.namespace, "new", {POLICY_LABEL: key.name}, self.nodes, None)
        failed = self.verbs.filter(args, self.decisions, self.now).failed
        left = [node for node in self.nodes if node not in failed]
        if not left:
            return None
        args = Args(key.namespace, "new", {POLICY_LABEL: key.name}, left, None)
        scores = self.verbs.prioritize(args, self.decisions, self.now).scores
        best = max(score for _, score in scores)
        return self.rng.choice([node for node, score in scores if score == best])


WORLDS = {
    "nodes": st.integers(2, 6),
    "each": st.integers(1, 8),
    "use": st.sampled_from([0.2, 0.8, 1.5, 3.0, 7.0]),
    "factor": st.sampled_from([0.0, 0.25, 1.0, 4.0]),
    "metric": st.sampled_from([CORES, "m"]),
    "seed": st.integers(0, 3),
}


@settings(max_examples=examples(6), deadline=None)
@given(**WORLDS)
def test_evictions_of_a_pod_in_an_hour_are_bounded(nodes, each, use, factor, metric, seed):
    """Whatever the load: also where no arrangement of the pods satisfies the policies."""
    pods = nodes * each
    cluster = Cluster(nodes, pods, use=use, requested=use * factor, metric=metric, seed=seed)
    for _ in range(720):
        cluster.step()
    for key in KEYS:
        mine = sum(one == key for _, one in cluster.evicted)
        assert mine <= MOST_PER_POD * max(1, (pods + 1) // 2)


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(2))
def test_policies_come_to_rest_where_all_pods_fit(factor, seed):
    """30 pods of 0.8 cores are 4 on each of 6 nodes; none may use more than 6."""
    cluster = Cluster(6, 30, use=0.8, requested=0.8 * factor, metric=CORES, seed=seed)
    for _ in range(360):
        cluster.step()
    begun = len(cluster.evicted)
    for _ in range(360):
        cluster.step()
    assert len(cluster.evicted) == begun
    assert begun <= 3 * 30
    assert not cluster.waiting
    assert not any(one.deschedule for one in cluster.decisions.policies.values())
