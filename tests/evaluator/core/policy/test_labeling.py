"""The value of a label that several matching rules name."""

import pytest

from evaluator.core.policy import evaluate, labeling
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.label_sets import LabelAssignments
from evaluator.core.policy.types import Label, Operator, Rule, Strategy
from evaluator.core.readings.store import Store
from plimsoll.steps import finished
from wire.codec import Delta

NOW = 100.0


def wanted(strategy, values):
    """Label key → value on one node, for metric → value."""
    store = Store(stale_after=10.0, started=0.0)
    store.subscribe({rule.metric for rule in strategy.rules})
    store.report("n", Delta({metric: float(value) for metric, value in values.items()}), NOW)
    table = MetricTable(("n",), {m: store.column(m, ("n",), NOW) for m in store.metrics})
    matches, missing = evaluate.match_rules(strategy, table)
    violations = evaluate.combine(strategy, matches, missing, missing)
    found = finished(labeling.assign_labels(strategy, table, violations))
    return dict(LabelAssignments(table.nodes, found.assignments).get("n", {}))


def rule(metric, operator, target, **labels):
    return Rule(metric, operator, target, tuple(Label(k, v) for k, v in labels.items()))


def cards(operator, target):
    """Three rules for one label, each with its own metric."""
    return Strategy(tuple(rule(m, operator, target, card=m) for m in ("m0", "m1", "m2")))


@pytest.mark.parametrize(
    ("values", "card"),
    [
        ({"m0": 11, "m1": 13, "m2": 12}, "m1"),
        ({"m0": 13, "m1": 13, "m2": 12}, "m0"),
        ({"m0": 12, "m1": 13, "m2": 13}, "m1"),
        ({"m0": 11, "m1": 9, "m2": 12}, "m2"),
        ({"m0": 11, "m1": 10, "m2": 9}, "m0"),
        ({"m0": 11, "m1": float("inf"), "m2": float("inf")}, "m1"),
        ({"m2": 11}, "m2"),
    ],
)
def test_highest_target_wins_for_greater_than(values, card):
    assert wanted(cards(Operator.GREATER_THAN, 10), values) == {"card": card}


@pytest.mark.parametrize(
    ("values", "card"),
    [
        ({"m0": 3, "m1": 1, "m2": 2}, "m1"),
        ({"m0": 1, "m1": 1, "m2": 2}, "m0"),
        ({"m0": 2, "m1": 1, "m2": 1}, "m1"),
        ({"m0": 9, "m1": 11, "m2": 8}, "m2"),
        ({"m0": 0, "m1": -1, "m2": float("-inf")}, "m2"),
    ],
)
def test_lowest_target_wins_for_less_than(values, card):
    assert wanted(cards(Operator.LESS_THAN, 10), values) == {"card": card}


@pytest.mark.parametrize(
    ("values", "card"),
    [({"m0": 10, "m1": 10, "m2": 10}, "m0"), ({"m0": 9, "m1": 10, "m2": 10}, "m1")],
)
def test_first_rule_wins_for_equals(values, card):
    assert wanted(cards(Operator.EQUALS, 10), values) == {"card": card}


def test_no_matching_rule_sets_no_label():
    assert wanted(cards(Operator.GREATER_THAN, 10), {"m0": 10, "m1": 1}) == {}


def test_labels_of_different_names_are_decided_separately():
    strategy = Strategy(
        (
            rule("m0", Operator.GREATER_THAN, 0, card="0", zone="a"),
            rule("m1", Operator.GREATER_THAN, 0, card="1"),
            rule("m2", Operator.LESS_THAN, 0, rack="7"),
        )
    )
    assert wanted(strategy, {"m0": 1, "m1": 2, "m2": 3}) == {"card": "1", "zone": "a"}
    assert wanted(strategy, {"m0": 1, "m2": -1}) == {"card": "0", "zone": "a", "rack": "7"}


def test_all_of_sets_labels_only_if_every_rule_matches():
    strategy = Strategy(cards(Operator.GREATER_THAN, 10).rules, all_of=True)
    assert wanted(strategy, {"m0": 11, "m1": 12, "m2": 9}) == {}
    assert wanted(strategy, {"m0": 11, "m1": 12, "m2": 11}) == {"card": "m1"}


def test_first_of_two_equal_names_in_a_rule_counts():
    twice = Rule("m0", Operator.GREATER_THAN, 0, (Label("card", "1"), Label("card", "2")))
    assert wanted(Strategy((twice,)), {"m0": 1}) == {"card": "1"}


def test_rule_without_labels_sets_none():
    assert wanted(Strategy((rule("m0", Operator.GREATER_THAN, 0),)), {"m0": 1}) == {}


HEAT = Strategy(
    (
        rule("temp", Operator.GREATER_THAN, 80, heat="hot", fan="on"),
        rule("temp", Operator.LESS_THAN, 20, heat="cold"),
    )
)


@pytest.mark.parametrize(
    ("temp", "labels"), [(90, {"heat": "hot", "fan": "on"}), (10, {"heat": "cold"}), (50, {})]
)
def test_exclusive_rules_with_different_operators_share_a_label(temp, labels):
    assert wanted(HEAT, {"temp": temp}) == labels


@pytest.mark.parametrize(("health", "state"), [(0, "good"), (2, "bad")])
def test_equals_and_greater_than_share_a_label(health, state):
    strategy = Strategy(
        (
            rule("health", Operator.EQUALS, 0, state="good"),
            rule("health", Operator.GREATER_THAN, 0, state="bad"),
        )
    )
    assert wanted(strategy, {"health": health}) == {"state": state}


MIXED = Strategy(
    (
        rule("m0", Operator.GREATER_THAN, 10, tier="high", zone="a"),
        rule("m1", Operator.LESS_THAN, 10, tier="low"),
        rule("m2", Operator.EQUALS, 10, tier="high"),
        rule("m3", Operator.GREATER_THAN, 10, tier="top"),
    )
)


@pytest.mark.parametrize(
    ("values", "tier"),
    [
        ({"m0": 11, "m1": 9}, None),  # high and low
        ({"m1": 9, "m2": 10}, None),  # low and high
        ({"m0": 11, "m2": 10}, "high"),  # both set the same value
        ({"m0": 11, "m3": 12}, "top"),  # one operator: the highest reading wins
        ({"m0": 11, "m2": 10, "m3": 12}, None),  # two operators, two values
        ({"m1": 9}, "low"),
    ],
)
def test_label_is_omitted_if_rules_with_different_operators_disagree(values, tier):
    found = wanted(MIXED, values)
    assert found.get("tier") == tier
    assert found.get("zone") == ("a" if values.get("m0") == 11 else None)


def test_all_of_with_different_operators_omits_the_label():
    strategy = Strategy(MIXED.rules[:2], all_of=True)
    assert wanted(strategy, {"m0": 11, "m1": 9}) == {"zone": "a"}
    assert wanted(strategy, {"m0": 11, "m1": 11}) == {}
