"""Any double that one node reports leaves the decisions about other nodes unchanged."""

import json
import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import parse as parse_policy
from evaluator.core.policy.problems import refusal_problem
from evaluator.core.readings.store import Store
from evaluator.features.pages.explain.policy import explain
from plimsoll.steps import finished
from wire.codec import Delta

NOW = 1000.0
MALLORY = "node-m"
OTHERS = ("node-a", "node-b", "node-z")
METRICS = ("cpu", "mem")

extremes = st.sampled_from(
    [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, -(2.0**63)]
)
anything = st.one_of(extremes, st.floats())
honest = st.fixed_dictionaries({m: st.integers(0, 3).map(float) for m in METRICS})
rule_texts = st.builds(
    lambda metric, operator, target: f"{metric} {operator} {target}",
    st.sampled_from(METRICS),
    st.sampled_from(["Equals", "LessThan", "GreaterThan"]),
    st.integers(-1, 4),
)


@st.composite
def policies(draw):
    """The texts of the rules of every strategy."""
    return {
        "dontschedule": draw(st.lists(rule_texts, min_size=1, max_size=3)),
        "deschedule": draw(st.lists(rule_texts, min_size=1, max_size=3)),
        "scheduleonmetric": [draw(rule_texts)],
        "labeling": draw(st.lists(rule_texts, min_size=1, max_size=2)),
    }


def decided(policy, readings, nodes):
    store = Store(stale_after=30.0, started=0.0)
    store.subscribe(METRICS)
    for node, values in readings.items():
        store.report(node, Delta(values), NOW)
    return decide([policy], nodes, store, now=NOW), store


def about(decisions, store, key):
    """All visible results about the other nodes."""
    decision = decisions.policies[key]
    nodes = dict(finished(explain(decisions, key, store, now=NOW)).nodes)
    return (
        {node: decision.dontschedule.get(node) for node in OTHERS},
        {node: decision.deschedule.get(node) for node in OTHERS},
        decision.ranking.scores(OTHERS),
        {node: dict(decisions.labels.get(node, {})) for node in OTHERS},
        {node: nodes[node] for node in OTHERS},
        {(m, node) for m, missing in decision.missing.items() for node in {*missing} - {MALLORY}},
        # Whether every node is refused is a result about all nodes together.
        {*decision.problems} - {refusal_problem(decision.policy)},
    )


def strictly(data):
    """As read by a JSON parser without NaN and Infinity."""

    def no(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(msgspec.json.encode(data), parse_constant=no)


@given(
    policies(),
    st.fixed_dictionaries(dict.fromkeys(OTHERS, honest)),
    st.fixed_dictionaries(dict.fromkeys(METRICS, anything)),
)
def test_values_of_one_node_never_change_decisions_about_another(
    tas, rule, texts, readings, spoilt
):
    labelled = [rule(text, [f"card={place}"]) for place, text in enumerate(texts["labeling"])]
    rules = {name: [rule(text) for text in found] for name, found in texts.items()}
    policy = parse_policy(tas("demo", **(rules | {"labeling": labelled})))
    everybody = (*OTHERS, MALLORY)
    without = decided(policy, readings, everybody)
    spoiled, store = decided(policy, readings | {MALLORY: spoilt}, everybody)
    assert about(spoiled, store, policy.key) == about(*without, policy.key)

    scores = spoiled.policies[policy.key].ranking.scores(everybody)
    assert all(type(score) is int and 0 <= score <= 10 for _, score in scores)
    found = finished(explain(spoiled, policy.key, store, now=NOW))
    strictly(found.head)
    told = strictly(dict(found.nodes))[MALLORY]["readings"]
    for metric, value in spoilt.items():
        if metric in told and not math.isfinite(value):
            assert told[metric]["value"] == str(value), "JSON has no such number"
