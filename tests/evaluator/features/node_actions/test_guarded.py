"""A policy whose plan raises costs only itself: what it set on nodes stays."""

import pytest
from prometheus_client import CollectorRegistry, Counter

from evaluator.core.isolation import Isolation
from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import parse
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.readings.store import Store
from evaluator.features.node_actions import names
from evaluator.features.node_actions.annotations import NODE_ACTIONS
from evaluator.features.node_actions.limit import node_limit
from evaluator.features.node_actions.plan import NOT_PLANNED, ActingPolicy, planning
from evaluator.features.node_actions.types import (
    ActionPlan,
    ActionSettings,
    Observed,
    taint_name,
)
from plimsoll.steps import finished
from tests.evaluator.conftest import make_rule, make_tas
from wire.codec import Delta


def policy(name):
    made = make_tas(name, deschedule=[make_rule("health Equals 2")])
    annotations = {"plimsoll.io/actions": "taint", "plimsoll.io/max-nodes": "100%"}
    made["metadata"] |= {"namespace": "ns", "annotations": annotations}
    return parse(made, vocabulary=Vocabulary(actions=(NODE_ACTIONS,)))


@pytest.mark.parametrize("method", ["plan", "present", "taints"])
def test_policy_whose_plan_raises_keeps_its_taints_and_evicts_nothing(method, monkeypatch):
    store = Store(stale_after=1e9, started=-1e9)
    store.subscribe({"health"})
    for node, value in {"a": 0.0, "b": 2.0, "c": 0.0}.items():
        store.report(node, Delta({"health": value}), 0.0)
    decisions = decide([policy("odd"), policy("even")], "abc", store, now=0.0)
    usual = getattr(ActingPolicy, method)

    def odd(self, *rest):
        if self.key.name == "odd":
            raise ValueError(self.key)
        return usual(self, *rest)

    monkeypatch.setattr(ActingPolicy, method, odd)
    part = Isolation(Counter("errors", "", ["part"], registry=CollectorRegistry())).part("plan")
    standing = names.taint_key(names.DOMAIN, policy("odd").key)
    observed = Observed({"a": frozenset({(standing, "NoSchedule")})}, {}, {})
    settings = ActionSettings(taints=True, evict=True, most=node_limit("100%"))
    made = finished(planning(decisions, observed, ActionPlan(), settings, now=0.0, guard=part))
    assert [*made.taints["a"]] == [taint_name(standing, "NoSchedule")]
    assert [*made.taints] == ["a", "b"]
    assert made.policies[policy("odd").key].problems == (NOT_PLANNED,)
    assert not made.policies[policy("odd").key].may_evict("b")
    assert made.policies[policy("even").key].may_evict("b")
    assert part.failing == 1
