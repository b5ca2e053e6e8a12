"""Rules, strategies and statuses on pages."""

import pytest
from msgspec import to_builtins

from evaluator.core.policy.strategies import StrategyName
from evaluator.features.pages.explain import wording


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"operator": "LessThan", "target": 3}, "m is less than 3"),
        ({"operator": "Equals", "target": "1500m"}, "m equals 1500m"),
        (
            {"metricname": "free_bytes", "operator": "LessThan", "target": 1500000000},
            "free_bytes is less than 1500000000 (1.4 GiB)",
        ),
        (
            {"metricname": "free_bytes", "operator": "LessThan", "target": "2Gi"},
            "free_bytes is less than 2Gi",
        ),
        (
            {"operator": "GreaterThan", "target": 1, "for": "1m30s", "whenMissing": "violate"},
            "m is greater than 1, for 1m30s, or has no usable reading",
        ),
    ],
)
def test_a_rule_is_a_sentence_with_its_durations(parsed, body, sentence):
    policy = parsed(dontschedule=[{"metricname": "m", **body}])
    [rule] = policy.strategies[StrategyName.DONTSCHEDULE].rules
    assert wording.rule(rule) == sentence


def test_a_strategy_says_what_it_does_and_how_rules_combine(parsed, rule):
    policy = parsed(
        dontschedule={
            "rules": [rule("a Equals 1"), rule("b Equals 1")],
            "logicalOperator": "allOf",
        },
        scheduleonmetric=[rule("c GreaterThan 0")],
    )
    assert wording.strategy(policy, StrategyName.DONTSCHEDULE) == (
        "Pods of this policy are not scheduled on nodes where all of these rules hold"
    )
    assert wording.strategy(policy, StrategyName.SCHEDULEONMETRIC) == (
        "Pods of this policy prefer nodes where c is highest"
    )


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"compliance": 1, "message": ["x"], "conditions": "none"},
        {"conditions": [1, "x", None]},
    ],
)
def test_fields_of_other_types_are_left_out(status):
    assert to_builtins(wording.status(status)) == {
        "compliance": "",
        "message": "",
        "conditions": [],
    }


def test_conditions_have_texts_only():
    condition = {"type": "Valid", "status": True, "reason": "Valid", "extra": "x"}
    [found] = wording.status({"compliance": "Violated", "conditions": [condition]}).conditions
    assert to_builtins(found) == {
        "type": "Valid",
        "status": "",
        "reason": "Valid",
        "message": "",
        "lastTransitionTime": "",
    }
