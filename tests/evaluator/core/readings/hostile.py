"""Policies, and nodes of which one reports any doubles: with and without its readings."""

import math

from hypothesis import strategies as st

from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import parse
from evaluator.core.readings.store import Store
from tests.evaluator.conftest import make_rule, make_tas
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


CASES = (
    policies(),
    st.fixed_dictionaries(dict.fromkeys(OTHERS, honest)),
    st.fixed_dictionaries(dict.fromkeys(METRICS, anything)),
)
"""Rules, readings of the other nodes, and readings of the hostile one."""


def with_and_without(texts, readings, spoilt):
    """Return a policy, and twice its decisions and the readings: with those of the hostile node, and without."""
    labelled = [make_rule(text, f"card={n}") for n, text in enumerate(texts["labeling"])]
    rules = {name: [make_rule(text) for text in found] for name, found in texts.items()}
    policy = parse(make_tas("demo", **(rules | {"labeling": labelled})))
    nodes = (*OTHERS, MALLORY)
    return (
        policy,
        decided(policy, readings | {MALLORY: spoilt}, nodes),
        decided(policy, readings, nodes),
    )
