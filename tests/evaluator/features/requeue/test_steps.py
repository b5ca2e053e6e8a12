"""Nodes that a policy permits again are found with little work for each policy."""

from evaluator.core.readings.store import Store
from evaluator.features.requeue import plan
from tests.evaluator.core.loop.counted_steps import NODES, halves, most_calls, with_reasons, world


def test_readmitted_nodes_are_found_without_all_reasons():
    before, after = halves(*world(metrics=10, policies=3, rules=10, kind=Store))
    found = plan.newly_allowed(before, after)
    openings = plan.remember({}, found, now=1.0, memory=300.0)
    assert not with_reasons(before, after)
    for key, nodes in found.items():
        was, now = before.policies[key].dontschedule, after.policies[key].dontschedule
        assert {*nodes.names} == was.keys() - now.keys() != set()
    assert openings.keys() == found.keys() == after.policies.keys()


def test_readmitting_makes_few_calls_for_each_policy():
    before, after = halves(*world(metrics=10, policies=5, rules=10, kind=Store))

    def once():
        more = plan.newly_allowed(before, after)
        plan.remember({}, more, now=1.0, memory=300.0)
        yield

    calls, _ = most_calls(once())
    assert calls <= 60 * len(before.policies) < len(NODES) * len(before.policies)
