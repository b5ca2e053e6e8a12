"""Tenants' policies that are each within all limits, and too many together."""

import gc
import tracemalloc

import pytest

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.http import ops
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.names import ObjectMeta, PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.policy import parse
from evaluator.core.policy.limits import MOST_RULES
from evaluator.core.readings.store import Store
from evaluator.features.pages.feature import routes
from evaluator.features.pages.handlers import Reports
from evaluator.features.pages.sources import PageSources
from plimsoll.http.types import Request
from wire.codec import Delta

NOW = 1000.0
RULES = parse.MOST_RULES
STRATEGIES = ("dontschedule", "deschedule", "labeling")


def strict_policy(name, metrics):
    """300 rules; `metrics` of them, each over half of the nodes."""

    def rules(strategy):
        return [
            {
                "metricname": f"m{(number + RULES * STRATEGIES.index(strategy)) % metrics}",
                "operator": "GreaterThan",
                "target": 50,
                **({"labels": [f"l{number % 10}=v{number}"]} if strategy == "labeling" else {}),
            }
            for number in range(RULES)
        ]

    strategies = {strategy: {"rules": rules(strategy)} for strategy in STRATEGIES}
    meta = {"namespace": "tenant", "name": name, "uid": name}
    return parse.parse({"metadata": meta, "spec": {"strategies": strategies}})


@pytest.fixture
def evaluator():
    """A decision loop with this many nodes and metrics."""

    def make(policies, nodes, metrics):
        cluster, store, figures = ClusterCache(), Store(stale_after=30.0, started=NOW), Metrics()
        decider = DecisionLoop(cluster, store, Subscriptions(), figures, clock=lambda: NOW)
        cluster.policies.replace(policies)
        names = [f"node-{number:04}" for number in range(nodes)]
        cluster.nodes.replace([Node(ObjectMeta(name=name, uid=name)) for name in names])
        cluster.pods.replace([])
        store.subscribe([f"m{number}" for number in range(metrics)])
        for number, name in enumerate(names):
            values = {f"m{m}": float((number * 7 + m) % 100) for m in range(metrics)}
            store.report(name, Delta(values), NOW)
        return decider, figures

    return make


def test_many_policies_within_all_limits_do_not_fill_memory(evaluator):
    """120 policies of 300 rules: decisions are bounded in total, and limited policies report so."""
    nodes = 500
    policies = [strict_policy(f"p{number:03}", metrics=20) for number in range(120)]
    decider, figures = evaluator(policies, nodes, metrics=20)
    gc.collect()
    tracemalloc.start()
    try:
        decider.evaluate()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    decided = decider.latest.policies
    evaluated = sum(len(s.rules) for d in decided.values() for s in d.policy.strategies.values())
    assert 0 < evaluated <= MOST_RULES
    assert figures.registry.get_sample_value("plimsoll_rules_left_out") == 36_000 - evaluated
    assert all(d.problems for d in decided.values() if len(d.policy.strategies) < len(STRATEGIES))
    assert taken < 15 * MOST_RULES * nodes


async def test_page_of_the_largest_policy_is_bounded(evaluator):
    """300 metrics of 5,000 nodes would be 119 MB."""
    decider, figures = evaluator([strict_policy("huge", metrics=300)], nodes=5_000, metrics=300)
    decider.evaluate()
    sources = PageSources(decider, ClusterCache(), clock=lambda: NOW)
    operations = ops.OpsServer(decider, figures, pages=routes(Reports(sources)))
    assert decider.latest.policies[PolicyKey("tenant", "huge")].dontschedule
    for path in ("/explain/tenant/huge", "/explain"):
        response = await operations.answer(Request("GET", path, {}, {}))
        assert response.status == 200
        assert response.size < 5_000_000
