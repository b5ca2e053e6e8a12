"""No step of a page between two yields to the event loop grows with the number of metrics and policies."""

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.pod import Pod, PodMeta, PodSpec
from evaluator.core.policy.decide import decide, deciding
from evaluator.core.readings.store import Store
from evaluator.core.signals import Decided
from evaluator.features.pages.explain import metrics as explain_metrics
from evaluator.features.pages.explain import nodes as explain_nodes
from evaluator.features.pages.explain import overview
from evaluator.features.pages.explain.pod import explain_pod
from evaluator.features.pages.explain.pod_summary import PodContext
from evaluator.features.pages.explain.policy import explain
from evaluator.features.pages.explain.states import states_of
from evaluator.features.pages.sources import ViolationTimes
from plimsoll.steps import finished
from tests.evaluator.core.loop.counted_steps import (
    COMMON,
    NODES,
    NOW,
    heaviest,
    with_reasons,
    world,
)


def test_no_step_of_an_explanation_grows_with_metrics_and_policies():
    def costs(metrics, policies):
        store, made = world(metrics, policies, rules=10)
        decisions = finished(deciding(made, NODES, store, now=NOW))
        found, _ = heaviest(explain(decisions, PolicyKey("ns", "p0"), store, now=NOW))
        return found

    few, many = costs(20, 2), costs(200, 20)
    assert few > len(NODES)
    assert many <= 1.5 * few


def test_no_step_of_a_page_grows_with_metrics_and_policies():
    def costs(metrics, policies):
        store, made = world(metrics, policies, rules=10, **COMMON[1])
        decisions = finished(deciding(made, NODES, store, now=NOW))
        decision = decisions.policies[PolicyKey("ns", "p0")]
        codes = finished(states_of(decision, decisions.table))
        keys = list(decisions.policies)
        pages = (
            overview.policies(decisions, keys, store, now=NOW),
            explain_nodes.worst(decisions),
            explain_nodes.rows(decisions, codes, np.arange(20), {}),
            explain_nodes.node(NODES[0], decisions, store, now=NOW),
            explain_metrics.counts_by_state(decisions),
            ViolationTimes().update(Decided(decisions, NOW)),
        )
        return [heaviest(steps)[0] for steps in pages]

    few, many = costs(20, 2), costs(200, 20)
    assert max(few) > len(NODES)  # something was counted
    assert all(more <= 1.5 * less for less, more in zip(few, many, strict=True))


def test_no_step_of_a_pods_or_nodes_explanation_grows_with_metrics_and_policies():
    def costs(metrics, policies):
        store, made = world(metrics, policies, rules=10)
        decisions = finished(deciding(made, NODES, store, now=NOW))
        decision = decisions.policies[PolicyKey("ns", "p0")]
        meta = PodMeta(name="web", namespace="ns", labels={"telemetry-policy": "p0"})
        pod = Pod(meta, PodSpec(requests_extender=True))
        context = PodContext(decisions, {name: Node(NodeMeta(name)) for name in NODES}, decision)
        of_pod, _ = heaviest(explain_pod(pod, context, store, now=NOW))
        of_nodes, _ = heaviest(explain_nodes.nodes(decisions))
        return max(of_pod, of_nodes)

    few, many = costs(20, 2), costs(200, 20)
    assert many <= 1.5 * few


def test_explanation_builds_reasons_only_for_shown_nodes():
    store, policies = world(metrics=10, policies=2, rules=10, kind=Store)
    decisions = decide(policies, NODES, store, now=NOW)
    page = finished(explain(decisions, PolicyKey("ns", "p0"), store, now=NOW))
    found = {node: entry.dontschedule for node, entry in page.nodes}
    assert not with_reasons(decisions)
    assert found.keys() == {*NODES}
    violators = decisions.policies[PolicyKey("ns", "p0")].dontschedule
    assert {node: text for node, text in found.items() if text} == violators
