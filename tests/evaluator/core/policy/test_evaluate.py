"""Which nodes match which rule: strict at the boundary, exact, and ignoring non-numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.policy import evaluate, violations
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.types import Operator, Rule, Strategy
from evaluator.core.readings.store import Store
from wire.codec import Delta

NOW = 1000.0


def view_of(readings, metrics=("m",), *, silent=()):
    """A table over node → metric → value (a float, or a list for several samples); `silent` nodes are stale."""
    store = Store(stale_after=10.0, started=0.0)
    store.subscribe(metrics)
    for node, values in readings.items():
        single = {name: value for name, value in values.items() if not isinstance(value, list)}
        several = {name: len(value) for name, value in values.items() if isinstance(value, list)}
        absent = set(metrics) - values.keys()
        at = NOW - 11 if node in silent else NOW
        store.report(node, Delta(single, absent, several), at)
    nodes = tuple(sorted(readings))
    return MetricTable(nodes, {metric: store.column(metric, nodes, NOW) for metric in metrics})


def broken(operator, target, value):
    table = view_of({"n": {"m": value}})
    return bool(table.column("m").matches(Rule("m", Operator(operator), target))[0])


@pytest.mark.parametrize(
    ("operator", "below", "at", "above"),
    [
        ("LessThan", True, False, False),
        ("GreaterThan", False, False, True),
        ("Equals", False, True, False),
    ],
)
@pytest.mark.parametrize("target", [0, 1, -7, 2**40])
def test_operators_are_strict_at_the_boundary(operator, below, at, above, target):
    value = float(target)
    assert broken(operator, target, math.nextafter(value, -math.inf)) is below
    assert broken(operator, target, value) is at
    assert broken(operator, target, math.nextafter(value, math.inf)) is above


@given(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53))
def test_integers_up_to_two_to_the_53_compare_exactly(value, target):
    assert broken("LessThan", target, float(value)) is (value < target)
    assert broken("GreaterThan", target, float(value)) is (value > target)
    assert broken("Equals", target, float(value)) is (value == target)


@pytest.mark.parametrize("target", [2**63 - 1, -(2**63)])
def test_largest_targets_are_compared(target):
    assert broken("Equals", target, float(target))
    assert not broken("Equals", target, 0.0)


@pytest.mark.parametrize("operator", list(Operator))
@pytest.mark.parametrize("value", [math.nan, [1.0, 1.0]], ids=["nan", "several"])
def test_readings_that_are_no_single_number_match_nothing(operator, value):
    assert not any(broken(operator, target, value) for target in (-1, 0, 1))


@pytest.mark.parametrize("operator", list(Operator))
def test_absent_or_stale_readings_match_nothing(operator):
    table = view_of({"absent": {}, "stale": {"m": 0.0}}, silent=["stale"])
    for target in (-1, 0, 1):
        assert not table.column("m").matches(Rule("m", operator, target)).any()


def test_infinities_compare_with_all_numbers():
    assert broken("GreaterThan", 2**63 - 1, math.inf)
    assert broken("LessThan", -(2**63), -math.inf)
    assert not broken("Equals", 2**63 - 1, math.inf)


def test_minus_zero_equals_zero():
    assert broken("Equals", 0, -0.0)
    assert not broken("LessThan", 0, -0.0)


READINGS = {
    "n0": {"a": 0.0, "b": 0.0},
    "n1": {"a": 9.0, "b": 0.0},
    "n2": {"a": 0.0, "b": 9.0},
    "n3": {"a": 9.0, "b": 9.0},
    "n4": {"a": 9.0},
}
BOTH = (Rule("a", Operator.GREATER_THAN, 5), Rule("b", Operator.GREATER_THAN, 5))


def violations_now(strategy, table):
    """Violations without `for` and `clearAfter`."""
    by_reading, missing = evaluate.match_rules(strategy, table)
    from_label = table.nodes.no_rules(len(strategy.rules))
    return evaluate.combine(strategy, by_reading | missing, missing, from_label)


def violators(strategy):
    table = view_of(READINGS, ("a", "b"))
    found = violations_now(strategy, table)
    return violations.reasons("p", strategy, table.nodes, found)


def test_any_of_fires_on_one_rule_and_names_the_first_match():
    assert violators(Strategy(BOTH)) == {
        "n1": "violating p: a GreaterThan 5",
        "n2": "violating p: b GreaterThan 5",
        "n3": "violating p: a GreaterThan 5",
        "n4": "violating p: a GreaterThan 5",
    }


def test_all_of_fires_on_all_rules_and_names_them_all():
    assert violators(Strategy(BOTH, all_of=True)) == {
        "n3": "violating p: a GreaterThan 5 and b GreaterThan 5"
    }


@pytest.mark.parametrize("all_of", [False, True])
def test_strategy_without_rules_is_never_violated(all_of):
    assert violators(Strategy((), all_of=all_of)) == {}


def test_all_of_with_an_omitted_rule_never_fires():
    assert violators(Strategy(BOTH, all_of=True, impossible=True)) == {}
    assert violators(Strategy(BOTH, all_of=False, impossible=True))


def test_no_node_violates_in_an_empty_cluster():
    empty = Store(stale_after=1.0, started=0.0).column("a", (), NOW)
    table = MetricTable((), {"a": empty, "b": empty})
    for strategy in (Strategy(BOTH), Strategy(BOTH, all_of=True)):
        assert violations.reasons("p", strategy, table.nodes, violations_now(strategy, table)) == {}


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=8), st.booleans())
def test_reason_is_stable_while_the_value_changes(values, all_of):
    """kube-scheduler writes it into the pod; a changing text would cause endless retries."""
    strategy = Strategy((Rule("m", Operator.GREATER_THAN, 5),), all_of=all_of)
    texts = set()
    for value in values:
        table = view_of({"n": {"m": value}})
        texts |= set(
            violations.reasons("p", strategy, table.nodes, violations_now(strategy, table)).values()
        )
    assert texts <= {"violating p: m GreaterThan 5"}


finite = st.floats(-10, 10)
some_rules = st.lists(
    st.builds(
        Rule, st.sampled_from(["a", "b"]), st.sampled_from(list(Operator)), st.integers(-3, 3)
    ),
    max_size=4,
)


@given(
    some_rules,
    st.booleans(),
    st.dictionaries(
        st.sampled_from(["n0", "n1", "n2"]),
        st.dictionaries(st.sampled_from(["a", "b"]), finite),
        min_size=1,
    ),
)
def test_columns_agree_with_node_by_node_comparison(given_rules, all_of, readings):
    compare = {
        Operator.LESS_THAN: float.__lt__,
        Operator.GREATER_THAN: float.__gt__,
        Operator.EQUALS: float.__eq__,
    }
    strategy = Strategy(tuple(given_rules), all_of=all_of)
    table = view_of(readings, ("a", "b"))
    violated = violations_now(strategy, table).violated
    for position, node in enumerate(table.nodes):
        fires = [
            rule.metric in readings[node]
            and compare[rule.operator](readings[node][rule.metric], float(rule.target))
            for rule in given_rules
        ]
        expected = bool(fires) and all(fires) if all_of else any(fires)
        assert violated[position] == np.bool_(expected)
