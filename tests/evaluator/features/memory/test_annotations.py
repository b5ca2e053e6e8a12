"""The annotations of a policy about its memory, and metrics about policies in rules."""

import math

import pytest

from evaluator.core.policy import parse
from evaluator.features.memory.annotations import Memory
from evaluator.features.registry import VOCABULARY

DAY = 86_400.0


def policy(tas, annotations=(), metric="m"):
    made = tas(
        "slow", dontschedule=[{"metricname": metric, "operator": "GreaterThan", "target": 2}]
    )
    made["metadata"]["annotations"] = dict(annotations)
    return parse.parse(made, vocabulary=VOCABULARY)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * DAY), ("12h", DAY / 2), ("8w", 56 * DAY), ("1h", 3600.0)]
)
def test_half_life(tas, text, seconds):
    found = policy(tas, {"plimsoll.io/memory": text})
    assert found.actions.part(Memory).half_life == seconds
    assert not found.problems


@pytest.mark.parametrize("text", ["", "30", "59m", "0d", "1d12h", "9999w", "-1d", "\u0661d"])
def test_invalid_half_life_is_a_problem_and_nothing_is_remembered(tas, text):
    found = policy(tas, {"plimsoll.io/memory": text})
    (problem,) = found.problems
    assert "is not a half-life: write it like 30d, 12h or 8w" in problem
    assert found.actions.part(Memory).half_life == 0


def test_score_is_public_or_it_is_a_problem(tas):
    memory = {"plimsoll.io/memory": "30d"}
    assert not policy(tas, memory | {"plimsoll.io/score": "public"}).problems
    (problem,) = policy(tas, memory | {"plimsoll.io/score": "yes"}).problems
    assert "is not public: other namespaces do not read the score" in problem
    (problem,) = policy(tas, {"plimsoll.io/score": "public"}).problems
    assert "needs plimsoll.io/memory" in problem


def test_level_of_flapping(tas):
    memory = {"plimsoll.io/memory": "30d"}
    levels = {"5": 5.0, "1.5": 1.5, "off": math.inf}
    for text, level in levels.items():
        found = policy(tas, memory | {"plimsoll.io/flapping": text})
        assert found.actions.part(Memory).flapping_above == level
    (problem,) = policy(tas, memory | {"plimsoll.io/flapping": "0.5"}).problems
    assert "neither a score of 1 or more nor off: 3 is used" in problem
    (problem,) = policy(tas, {"plimsoll.io/flapping": "5"}).problems
    assert "needs plimsoll.io/memory" in problem


@pytest.mark.parametrize(
    ("written", "metric"),
    [
        ("violation_score_slow-disk", "violation_score_ns_slow-disk"),
        ("violation_score_shop_slow-disk", "violation_score_shop_slow-disk"),
    ],
)
def test_score_in_a_rule_is_of_a_policy_of_the_same_namespace_unless_it_names_one(
    tas, written, metric
):
    found = policy(tas, metric=written)
    assert found.metrics == {metric}
    assert found.measured_metrics == frozenset()  # no source is asked for it
    assert found.per_pod_metrics == frozenset()


def test_observed_policies_count_with_the_annotation_only(tas):
    memory = {"plimsoll.io/memory": "30d"}
    found = policy(tas, memory | {"plimsoll.io/memory-observed": "count"})
    assert found.actions.part(Memory).count_observed
    assert not found.problems
    found = policy(tas, memory | {"plimsoll.io/memory-observed": "yes"})
    (problem,) = found.problems
    assert "'yes' is not count: nothing is counted while the policy is observed" in problem
    assert not found.actions.part(Memory).count_observed
    (problem,) = policy(tas, {"plimsoll.io/memory-observed": "count"}).problems
    assert "needs plimsoll.io/memory" in problem
