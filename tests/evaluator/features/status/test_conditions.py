"""Conditions of a policy's status: violated, not violated or unknown, per strategy."""

import re

import pytest

from evaluator.core.policy.decide import decide
from evaluator.core.readings.reported import NodeCauses
from evaluator.core.readings.store import Store
from evaluator.features.status.conditions import conditions
from wire.codec import Delta

NOW = 1000.0
ABSENT = Delta(absent=["m"], never_had=frozenset({"m"}))


@pytest.fixture
def found(parsed):
    """Condition type → (status, reason, message), for strategies and values of m on n0, n1, ...; None is lost."""

    def run(*values, starting=False, problems=(), **strategies):
        policy = parsed(**strategies)
        store = Store(stale_after=30.0, started=NOW if starting else 0.0)
        store.subscribe(["m"])
        nodes = [f"n{number}" for number in range(len(values))]
        for node, value in zip(nodes, values, strict=True):
            if value != "silent":
                delta = ABSENT if value == "absent" else Delta({"m": value})
                delta = Delta(absent=["m"]) if value is None else delta
                store.report(node, delta, NOW)
        decisions = decide([policy], nodes, store, now=NOW)
        made = conditions(decisions.policies[policy.key], decisions.table, problems)
        assert all(
            re.fullmatch(r"[A-Z][A-Za-z]+", word) for c in made for word in (c.type, c.reason)
        )
        return {c.type: (c.status, c.reason, c.message) for c in made}

    return run


@pytest.fixture
def above(rule):
    return rule("m GreaterThan 5")


def test_each_strategy_has_a_condition_and_the_policy_one(found, above, rule):
    labeling = [rule("m GreaterThan 5", "a=b")]
    made = found(1.0, dontschedule=[above], deschedule=[above], labeling=labeling, scheduleonmetric=[above])  # fmt: skip
    assert list(made) == [
        "Valid",
        "DescheduleViolated",
        "DontScheduleViolated",
        "LabelingViolated",
        "ScheduleOnMetricReady",
        "MetricsFound",
    ]
    assert {made[name][0] for name in made if name.endswith("Violated")} == {"False"}


def test_problems_make_the_policy_invalid(found):
    assert found()["Valid"] == ("True", "Understood", "every part of the policy is in force")
    assert found(problems=["a", "b"])["Valid"] == ("False", "Problems", "a; b")


@pytest.mark.parametrize("length", [10, 500, 1500, 40_000])
def test_problems_are_cut_to_the_limit_of_kubernetes(found, length):
    told = found(problems=["x" * length] * 100)["Valid"][2]
    assert len(told) <= 32_768
    assert told.endswith(f"and {100 - told.count('x' * length)} more")


@pytest.mark.parametrize(
    ("values", "status", "reason", "message"),
    [
        ([1.0, 2.0], "False", "NotViolated", "no violation on 2 nodes"),
        ([9.0, 2.0], "True", "RulesViolated", "violated on 1 of 2 nodes (n0)"),
        ([9.0, None], "True", "RulesViolated", "violated on 1 of 2 nodes (n0)"),
        ([1.0, None], "Unknown", "ReadingsMissing", "no usable reading of m on 1 of 2 nodes (n1)"),
        ([], "False", "NotViolated", "no violation on 0 nodes"),
    ],
)
def test_condition_is_true_false_or_unknown(found, above, values, status, reason, message):
    made = found(*values, deschedule=[above])
    assert made["DescheduleViolated"] == (status, reason, message)


def test_pending_reading_is_not_missing(found, above):
    made = found(1.0, "silent", starting=True, dontschedule=[above])["DontScheduleViolated"]
    assert made == (
        "Unknown",
        "ReadingsAwaited",
        "waiting for the first readings of 1 of 2 nodes (n1)",
    )


@pytest.mark.parametrize(
    ("values", "reason", "message"),
    [
        (
            [9.0, None],
            "RulesViolated",
            "violated on 2 of 2 nodes (n0, n1), 1 of them because of missing readings",
        ),
        (
            [1.0, None],
            "ReadingsMissing",
            "violated on 1 of 2 nodes (n1), 1 of them because of missing readings",
        ),
    ],
)
def test_missing_reading_that_violates_leaves_no_doubt(found, above, values, reason, message):
    made = found(*values, dontschedule=[{**above, "whenMissing": "violate"}])
    assert made["DontScheduleViolated"] == ("True", reason, message)


ON_N1 = "m is absent on 1 of 2 nodes (n1)"


@pytest.mark.parametrize(
    ("values", "when_missing", "expected"),
    [
        (
            [1.0, "absent"],
            "ignore",
            ("False", "NotViolated", f"no violation on 2 nodes; {ON_N1}: no violation there"),
        ),
        (
            [9.0, "absent"],
            "ignore",
            (
                "True",
                "RulesViolated",
                f"violated on 1 of 2 nodes (n0); {ON_N1}: no violation there",
            ),
        ),
        (
            [1.0, "absent"],
            "violate",
            (
                "True",
                "ReadingsMissing",
                "violated on 1 of 2 nodes (n1), 1 of them because of missing readings; "
                f"{ON_N1}: a violation there, by whenMissing",
            ),
        ),
        (
            [None, "absent"],
            "ignore",
            ("Unknown", "ReadingsMissing", "no usable reading of m on 2 of 2 nodes (n0, n1)"),
        ),
    ],
)
def test_absent_metric_leaves_no_doubt_and_the_condition_says_what_it_counts_as(
    found, above, values, when_missing, expected
):
    made = found(*values, dontschedule=[{**above, "whenMissing": when_missing}])
    assert made["DontScheduleViolated"] == expected


def test_ranking_says_where_its_metric_is_absent(found, above):
    made = found(1.0, "absent", scheduleonmetric=[above])["ScheduleOnMetricReady"]
    assert made == ("True", "NodesRanked", f"1 of 2 nodes ranked by m; {ON_N1}: not ranked there")


def test_strategy_that_never_fires_has_a_reason(found, above):
    made = found(
        9.0, dontschedule=[], deschedule={"rules": [above, {}], "logicalOperator": "allOf"}
    )
    assert made["DontScheduleViolated"] == ("False", "NoRules", "it has no rules")
    assert made["DescheduleViolated"][:2] == ("False", "RuleLeftOut")


@pytest.mark.parametrize(
    ("values", "status", "reason", "message"),
    [
        ([1.0, 2.0], "True", "NodesRanked", "2 of 2 nodes ranked by m"),
        ([1.0, None], "True", "NodesRanked", "1 of 2 nodes ranked by m"),
        ([None, None], "False", "ReadingsMissing", "no node has a usable reading of m"),
    ],
)
def test_ranking_is_ready_once_a_node_has_a_reading(found, above, values, status, reason, message):
    made = found(*values, scheduleonmetric=[above])
    assert made["ScheduleOnMetricReady"] == (status, reason, message)
    assert found(1.0, scheduleonmetric=[])["ScheduleOnMetricReady"][1] == "NoRules"


def test_violation_names_the_devices_of_the_first_nodes(parsed, above):
    policy, store = parsed(dontschedule=[above]), Store(stale_after=30.0, started=0.0)
    store.subscribe(["m"])
    causes, nodes = NodeCauses(), [f"n{number}" for number in range(6)]
    for node in nodes:
        store.report(node, Delta({"m": 1.0 if node == "n0" else 9.0}), NOW)
        causes.report(node, {} if node == "n2" else {"m": f"gpu: UUID=GPU-{node}"})
    decisions = decide([policy], nodes, store, now=NOW)
    decision = decisions.policies[policy.key]
    made = conditions(decision, decisions.table, (), cause_of=causes.cause_of)
    (violated,) = [one.message for one in made if one.type == "DontScheduleViolated"]
    assert violated == (
        "violated on 5 of 6 nodes (n1, n2, n3, n4, n5); n1: gpu: UUID=GPU-n1; n3: gpu: UUID=GPU-n3; n4: gpu: UUID=GPU-n4"
    )
