"""No step between two yields to the event loop grows with the number of metrics and policies.

The tests count work: the cells that numpy reads and writes, and function calls. Wall time depends on the machine's other work.
"""

import itertools
import weakref

import pytest

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop.followers import PolicyGauges, log_changes, release
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import SLICE, Metrics
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import Decisions, decide, deciding
from evaluator.core.readings.store import Store
from tests.evaluator.core.loop.counted_steps import (
    COMMON,
    NODES,
    NOW,
    halves,
    heaviest,
    most_calls,
    with_reasons,
    world,
)
from wire.codec import Delta


def deciding_costs(store, policies):
    """Of a first decision, and of the next one after every tenth node has reported."""
    first, before = heaviest(deciding(policies, NODES, store, now=NOW))
    for node in NODES[::10]:
        store.report(node, Delta(dict.fromkeys(store.metrics, 55.0)), NOW + 1)
    second, _ = heaviest(deciding(policies, NODES, store, now=NOW + 1, before=before))
    return max(first, second)


@pytest.mark.parametrize("common", COMMON)
def test_no_step_of_a_decision_grows_with_metrics_and_policies(common):
    few = deciding_costs(*world(metrics=20, policies=2, rules=10, **common))
    many = deciding_costs(*world(metrics=200, policies=20, rules=10, **common))
    assert few > len(NODES)  # something was counted
    assert many <= 1.5 * few


@pytest.mark.parametrize("common", COMMON)
def test_step_makes_few_calls_per_rule_of_one_strategy(common):
    """A step may pass over the table of nodes and rules; many Python calls per rule are a step of their own."""
    rules = 100
    store, policies = world(metrics=100, policies=2, rules=rules, kind=Store, **common)
    first, before = most_calls(deciding(policies, NODES, store, now=NOW))
    for node in NODES[::2]:
        store.report(node, Delta(dict.fromkeys(store.metrics, 55.0)), NOW + 1)
    second, _ = most_calls(deciding(policies, NODES, store, now=NOW + 1, before=before))
    assert max(first, second) <= 35 * rules


def test_replaced_decisions_are_freed_policy_by_policy():
    store, policies = world(metrics=100, policies=10, rules=10, kind=Store)
    decisions = decide(policies, NODES, store, now=NOW)
    reasons = [weakref.ref(one.dontschedule) for one in decisions.policies.values()]
    columns = [weakref.ref(one) for one in decisions.table.prepared.values()]
    held = [decisions]
    del decisions
    left = (
        tuple(sum(ref() is not None for ref in refs) for refs in (reasons, columns))
        for _ in release(held)
    )
    alive = [(len(policies), len(columns)), *left]
    steps = [(a - c, b - d) for (a, b), (c, d) in itertools.pairwise(alive)]
    assert alive[-1] == (0, 0)
    assert all(one <= 1 and other <= 20 for one, other in steps)


def test_log_builds_reasons_only_for_nodes_it_names(log_lines):
    read = log_lines("logfmt")
    before, after = halves(*world(metrics=10, policies=3, rules=10, kind=Store))
    for _ in (*log_changes(Decisions(), before), *log_changes(before, after)):
        pass
    lines = read()
    assert any("node-001 violating p0: m" in line for line in lines)
    assert any("node-000 no longer violating p2" in line for line in lines)
    assert not with_reasons(before, after)
    dict(after.policies[PolicyKey("ns", "p0")].dontschedule)
    assert with_reasons(before, after)  # it is visible


def test_gauges_of_policies_are_collected_in_slices():
    store, policies = world(metrics=100, policies=10, rules=50, kind=Store)
    metrics = Metrics()
    for _ in PolicyGauges(metrics).show(decide(policies, NODES, store, now=NOW)):
        pass
    sizes = [len(family.samples) for family in metrics.registry.collect()]
    assert max(sizes) == SLICE
    assert sum(sizes) > 500


def test_each_step_subscribes_to_a_few_new_metrics():
    """Space for a metric is cleared for all nodes: for 1,000 metrics and 5,000 nodes this takes 100 ms."""

    class NotingStore(Store):
        steps = ()

        def subscribe(self, metrics):
            before = self.metrics
            super().subscribe(metrics)
            self.steps = (*self.steps, len(self.metrics - before))

    _, policies = world(metrics=400, policies=4, rules=100)
    store, cluster = NotingStore(stale_after=30.0, started=0.0), ClusterCache()
    cluster.policies.replace(policies)
    loop = DecisionLoop(cluster, store, Subscriptions(), Metrics())
    loop.evaluate()
    named = {metric for policy in policies for metric in policy.metrics}
    assert store.metrics == named
    assert sum(store.steps) == len(named) > 50
    assert max(store.steps) <= 10
    cluster.policies.replace(policies[:1])
    loop.evaluate()
    assert store.metrics == policies[0].metrics
