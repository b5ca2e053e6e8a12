"""A policy's status: compliance, problems and unknowns."""

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.hints import aggregation_hint
from evaluator.core.policy.reductions import Use
from evaluator.core.policy.types import Operator
from evaluator.core.policy_status import PolicyPart
from evaluator.core.readings.store import Store
from evaluator.features.status.plan import statuses
from wire.codec import Delta

NOW = 1000.0
KEY = PolicyKey("ns", "demo")


@pytest.fixture
def status():
    """The status of one policy over nodes n0, n1, ... with these values of m; None is lost, a list several."""

    def run(policy, values, varying=()):

        def parts_of(_decision):
            return [PolicyPart(varying_problems=varying)]

        store = Store(stale_after=30.0, started=0.0)
        store.subscribe(policy.metrics)
        nodes = [f"n{number}" for number in range(len(values))]
        for node, value in zip(nodes, values, strict=True):
            several = {"m": len(value)} if isinstance(value, list) else {}
            single = {} if value in (None, "absent") or several else {"m": value}
            never_had = frozenset({"m"} if value == "absent" else ())
            absent = [] if single or several else ["m"]
            store.report(node, Delta(single, absent, several, never_had=never_had), NOW)
        return dict(statuses(decide([policy], nodes, store, now=NOW), parts_of=parts_of))[
            policy.key
        ]

    return run


@pytest.fixture
def demo(parsed, rule):
    return parsed(dontschedule=[rule("m GreaterThan 0")], generation=7)


def test_compliant_policy_has_conditions_false(status, demo):
    found = status(demo, [0.0, 0.0])
    assert (found.compliance, found.message) == ("Compliant", "no violation on 2 nodes")
    assert (found.problems, found.generation) == ((), 7)


def test_violated_policy_has_a_condition_true(status, demo):
    found = status(demo, [0.0, 1.0, 1.0])
    assert (found.compliance, found.message) == ("Violated", "violated on 2 of 3 nodes (n1, n2)")


def test_absent_metric_leaves_a_policy_compliant(status, demo):
    found = status(demo, [0.0, "absent", "absent"])
    absent = "m is absent on 2 of 3 nodes (n1, n2): no violation there"
    assert (found.compliance, found.message) == (
        "Compliant",
        f"no violation on 3 nodes; {absent}",
    )


def test_lost_metric_beside_absent_ones_leaves_compliance_unknown(status, demo):
    found = status(demo, [0.0, None, "absent"])
    assert found.compliance == "Unknown"
    assert found.message == (
        "no usable reading of m on 1 of 3 nodes (n1); m is absent on 1 of 3 nodes (n2): no violation there"
    )


def test_node_violating_two_strategies_counts_once(status, parsed, rule):
    policy = parsed(dontschedule=[rule("m GreaterThan 0")], deschedule=[rule("m Equals 1")])
    assert status(policy, [1.0, 0.0]).message == "violated on 1 of 2 nodes (n0)"


def test_condition_is_unknown_while_readings_are_missing(status, demo):
    found = status(demo, [0.0, None])
    assert found.compliance == "Unknown"
    assert found.message == "no usable reading of m on 1 of 2 nodes (n1)"


def test_violated_overrides_unknown_and_the_message_has_both(status, demo):
    found = status(demo, [1.0, None])
    assert found.compliance == "Violated"
    assert "violated on 1 of 2 nodes (n0); no usable reading of m on 1 of 2" in found.message


def test_message_names_a_few_of_many_nodes(status, demo):
    found = status(demo, [1.0] * 499 + [0.0])
    assert found.message == "violated on 499 of 500 nodes (n0, n1, n10, n100, n101 and 494 more)"


def test_problems_are_in_the_condition_and_counted_in_the_message(status, parsed, rule):
    policy = parsed(dontschedule=[rule("m GreaterThan 0"), {}], other=[])
    found = status(policy, [0.0])
    assert len(found.problems) == 2
    assert found.message == "no violation on 1 node; 2 problems, see the condition Valid"
    valid, *_ = found.conditions
    assert (valid.type, valid.status) == ("Valid", "False")
    assert "rule 2: it has no metricname: left out" in valid.message
    assert "strategy 'other' is unknown" in valid.message


def test_metric_that_no_node_has_is_a_problem(status, demo):
    found = status(demo, [None, None])
    assert found.problems == ("no node has the metric m: see the condition MetricsFound",)
    assert found.message.endswith("; 1 problem, see the condition Valid")
    valid, *_, last, _enforced = found.conditions
    assert (valid.status, valid.reason, valid.message) == ("False", "Problems", *found.problems)
    assert (last.type, last.status) == ("MetricsFound", "False")
    assert status(demo, [None, 0.0]).problems == ()


def test_counter_is_a_warning_in_the_condition_and_counted_in_the_message(status, parsed, rule):
    policy = parsed(dontschedule=[rule("my_seconds_total GreaterThan 20")])
    found = status(policy, [])
    assert found.problems == ()
    assert found.message.endswith("1 warning, see the condition Valid")
    valid, *_ = found.conditions
    assert (valid.status, valid.reason) == ("True", "Warnings")
    (warning,) = policy.warnings
    assert valid.message == f"every part of the policy is in force; warning: {warning}"
    flawed = parsed(dontschedule=[rule("my_seconds_total GreaterThan 20"), {}])
    valid, *_ = status(flawed, []).conditions
    assert (valid.status, valid.reason) == ("False", "Problems")
    assert valid.message.endswith(f"; warning: {warning}")


def test_ambiguous_series_are_a_problem_with_metric_and_count(status, demo):
    found = status(demo, [0.0, [1.0, 2.0, 3.0]])
    assert found.problems == (
        "metric m has no single value on 1 of 2 nodes: 3 series on n1; it counts as missing there: "
        + aggregation_hint("m", "", (Use(Operator.GREATER_THAN),)),
    )


def test_problem_that_a_feature_reports_is_a_problem_of_the_policy(status, demo):
    assert status(demo, [0.0], varying=("not set on n0",)).problems == ("not set on n0",)


def test_body_conforms_to_the_crd(status, demo):
    body = status(demo, [0.0]).body(lambda condition: f"when {condition.type} became so")
    assert body == {
        "compliance": "Compliant",
        "message": "no violation on 1 node",
        "violatingNodes": 0,
        "enforcement": "Enforce",
        "annotationsInForce": [],
        "pods": {"following": 0, "ignored": 0},
        "observedGeneration": 7,
        "conditions": [
            {
                "type": "Valid",
                "status": "True",
                "reason": "Understood",
                "message": "every part of the policy is in force",
                "lastTransitionTime": "when Valid became so",
                "observedGeneration": 7,
            },
            {
                "type": "DontScheduleViolated",
                "status": "False",
                "reason": "NotViolated",
                "message": "no violation on 1 node",
                "lastTransitionTime": "when DontScheduleViolated became so",
                "observedGeneration": 7,
            },
            {
                "type": "MetricsFound",
                "status": "True",
                "reason": "AllFound",
                "message": "some node has each metric",
                "lastTransitionTime": "when MetricsFound became so",
                "observedGeneration": 7,
            },
            {
                "type": "Enforced",
                "status": "True",
                "reason": "Enforced",
                "message": "the policy is enforced",
                "lastTransitionTime": "when Enforced became so",
                "observedGeneration": 7,
            },
        ],
    }


def test_status_does_not_change_with_the_readings(status, demo):
    """Every write goes through the API server to all watchers."""
    assert status(demo, [1.0, 0.0]) == status(demo, [250.5, -3.0])
