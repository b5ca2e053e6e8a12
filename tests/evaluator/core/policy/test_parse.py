"""TASPolicy objects, valid and invalid: what is parsed, and the problems reported."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy import parse as policy
from evaluator.core.policy.parse import MOST_LABELS, MOST_RULES
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import (
    PLAIN,
    Label,
    Operator,
    Rule,
    RuleOptions,
    Strategy,
    WhenMissing,
)
from evaluator.core.policy.vocabulary import Vocabulary

VOCABULARY = Vocabulary(frozenset({"plimsoll_risk_cpu", "plimsoll_reward", "plimsoll_congestion"}))
GOOD = {"metricname": "health_metric", "operator": "Equals", "target": 1}
PREFIX = "telemetry.aware.scheduling.demo"


def tas(strategies, name="demo", **metadata):
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": name, "namespace": "ns", **metadata},
        "spec": {"strategies": strategies},
    }


def parse(strategies, **metadata):
    return policy.parse(tas(strategies, **metadata), vocabulary=VOCABULARY)


def rules(*given, **more):
    return {"rules": list(given), **more}


def labeling(*labels, metric="m", operator="GreaterThan", target=0):
    return {
        "metricname": metric,
        "operator": operator,
        "target": target,
        "labels": list(labels),
    }


def test_all_four_strategies_are_parsed():
    found = parse(
        {
            "dontschedule": rules(GOOD, {**GOOD, "target": 2}),
            "scheduleonmetric": rules({"metricname": "mem", "operator": "GreaterThan"}),
            "deschedule": rules(GOOD, logicalOperator="allOf"),
            "labeling": rules(labeling("card=0", "zone=a-b_c.d")),
        },
        uid="u-1",
        generation=7,
    )
    health = Rule("health_metric", Operator.EQUALS, 1)
    assert found.problems == ()
    assert (found.key, found.uid, found.generation) == (PolicyKey("ns", "demo"), "u-1", 7)
    assert found.strategies == {
        StrategyName.DONTSCHEDULE: Strategy(
            (health, Rule("health_metric", Operator.EQUALS, 2)), all_of=False
        ),
        StrategyName.SCHEDULEONMETRIC: Strategy((Rule("mem", Operator.GREATER_THAN, 0),)),
        StrategyName.DESCHEDULE: Strategy((health,), all_of=True),
        StrategyName.LABELING: Strategy(
            (
                Rule(
                    "m",
                    Operator.GREATER_THAN,
                    0,
                    (Label(f"{PREFIX}/card", "0"), Label(f"{PREFIX}/zone", "a-b_c.d")),
                ),
            )
        ),
    }
    assert found.metrics == {"health_metric", "mem", "m"}


def test_key_and_rule_have_readable_text():
    found = parse({"dontschedule": rules(GOOD)})
    assert str(found.key) == "ns/demo"
    (rule,) = found.strategies[StrategyName.DONTSCHEDULE].rules
    assert str(rule) == "health_metric Equals 1"


@pytest.mark.parametrize("operator", ["LessThan", "GreaterThan", "Equals"])
def test_operators_are_parsed(operator):
    (rule,) = (
        parse({"dontschedule": rules({**GOOD, "operator": operator})})
        .strategies[StrategyName.DONTSCHEDULE]
        .rules
    )
    assert rule.operator == operator


@pytest.mark.parametrize(
    ("given", "target"), [({}, 0), ({"target": None}, 0), ({"target": -5}, -5)]
)
def test_missing_target_is_zero(given, target):
    body = {"metricname": "m", "operator": "Equals", **given}
    (rule,) = parse({"dontschedule": rules(body)}).strategies[StrategyName.DONTSCHEDULE].rules
    assert rule.target == target


@pytest.mark.parametrize("target", [2**53, -(2**53), 2**63 - 1, -(2**63)])
def test_targets_are_64_bit_integers(target):
    found = parse({"dontschedule": rules({**GOOD, "target": target})})
    assert found.strategies[StrategyName.DONTSCHEDULE].rules[0].target == target


@pytest.mark.parametrize(
    ("target", "value", "reads"),
    [
        (0.5, 0.5, "0.5"),
        (-1.25, -1.25, "-1.25"),
        (3.0, 3, "3"),
        (1e300, 1e300, "1e+300"),
        (2**63 - 1, 2**63 - 1, "9223372036854775807"),
        ("1500m", 1.5, "1500m"),
        ("0.5", 0.5, "0.5"),
        ("2Gi", 2**31, "2Gi"),
        ("1e3", 1000, "1e3"),
        ("7", 7, "7"),
    ],
)
def test_target_is_a_number_or_quantity_and_keeps_its_spelling(target, value, reads):
    found = parse({"dontschedule": rules({**GOOD, "target": target})})
    (rule,) = found.strategies[StrategyName.DONTSCHEDULE].rules
    assert (found.problems, rule.target, str(rule)) == ((), value, f"health_metric Equals {reads}")


def test_another_spelling_of_a_target_is_another_policy():
    """Otherwise the old spelling would stay in messages."""
    milli = parse({"dontschedule": rules({**GOOD, "target": "1500m"})})
    assert milli != parse({"dontschedule": rules({**GOOD, "target": 1.5})})


def test_durations_of_rules_override_those_of_the_strategy():
    found = parse(
        {
            "deschedule": rules(
                GOOD,
                {**GOOD, "for": "1m30s", "whenMissing": "ignore"},
                {**GOOD, "clearAfter": "0"},
                **{"for": "30s", "clearAfter": "60s", "whenMissing": "violate"},
            ),
            "dontschedule": rules(GOOD),
        }
    )
    assert found.problems == ()
    assert [rule.options for rule in found.strategies[StrategyName.DESCHEDULE].rules] == [
        RuleOptions(30, 60, WhenMissing.VIOLATE),
        RuleOptions(90, 60, WhenMissing.IGNORE),
        RuleOptions(30, 0, WhenMissing.VIOLATE),
    ]
    assert found.strategies[StrategyName.DONTSCHEDULE].rules[0].options == PLAIN


@pytest.mark.parametrize("terms", [{"for": "x"}, {"clearAfter": 5}, {"whenMissing": "no"}])
def test_invalid_durations_of_a_strategy_omit_it(terms):
    found = parse({"deschedule": rules(GOOD, **terms), "dontschedule": rules(GOOD)})
    (problem,) = found.problems
    assert re.search(r"^deschedule: (for|clearAfter|whenMissing).*: the strategy is not", problem)
    assert set(found.strategies) == {StrategyName.DONTSCHEDULE}


def test_ranking_has_no_durations():
    ranking = {"metricname": "a", "operator": "LessThan"}
    (problem,) = parse({"scheduleonmetric": rules(ranking, whenMissing="violate")}).problems
    assert re.search("for, clearAfter and whenMissing do not apply to a ranking", problem)


def test_stored_status_is_kept_and_is_no_difference():
    plain = tas({"deschedule": rules(GOOD)})
    said = policy.parse({**plain, "status": {"compliance": "Violated"}})
    assert said.status == {"compliance": "Violated"}
    assert said == policy.parse(plain)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("text", "it is not an object"),
        (None, "it is not an object"),
        ({}, "it has no metricname"),
        ({**GOOD, "metricname": ""}, "it has no metricname"),
        ({**GOOD, "metricname": 5}, "it has no metricname"),
        ({**GOOD, "operator": "equals"}, "operator 'equals' is unknown"),
        ({**GOOD, "operator": "x" * 10_000}, "operator 'xxx"),
        ({**GOOD, "operator": None}, "operator None is unknown"),
        ({**GOOD, "operator": ["Equals"]}, "operator .* is unknown"),
        ({"metricname": "m"}, "operator None is unknown"),
        ({**GOOD, "metricname": "a/b"}, "metricname 'a/b' is not a metric name"),
        ({**GOOD, "metricname": "a\n"}, "metricname .* is not a metric name"),
        ({**GOOD, "target": "much"}, "target 'much' is neither a number nor a quantity"),
        ({**GOOD, "target": "1e999"}, "target '1e999' is neither a number nor a quantity"),
        ({**GOOD, "target": ""}, "target '' is neither a number nor a quantity"),
        ({**GOOD, "target": True}, "target True is neither a number nor a quantity"),
        ({**GOOD, "target": math.inf}, "target inf is neither a number nor a quantity"),
        ({**GOOD, "target": math.nan}, "target nan is neither a number nor a quantity"),
        ({**GOOD, "target": [1]}, "target .* is neither a number nor a quantity"),
        ({**GOOD, "target": -(10**400)}, "target .* is neither a number nor a quantity"),
        ({**GOOD, "for": "soon"}, "for: not a duration: 'soon'"),
        ({**GOOD, "for": 30}, "for: not a duration: 30 .*in quotes"),
        ({**GOOD, "for": "-1s"}, "for: not a duration"),
        ({**GOOD, "clearAfter": ""}, "clearAfter: not a duration"),
        ({**GOOD, "clearAfter": {}}, "clearAfter: not a duration"),
        ({**GOOD, "whenMissing": "panic"}, "whenMissing 'panic' is neither ignore nor violate"),
        ({**GOOD, "whenMissing": ["violate"]}, "whenMissing .* is neither ignore nor violate"),
    ],
)
@pytest.mark.parametrize("strategy", ["dontschedule", "deschedule", "labeling"])
def test_invalid_rule_is_omitted_and_its_neighbour_works(strategy, broken, says):
    good = {**GOOD, "labels": ["a=1"]}
    found = parse({strategy: rules(broken, good)})
    (problem,) = found.problems
    assert re.search(rf"^{strategy}: rule 1: {says}.*: left out$", problem)
    (rule,) = found.strategies[StrategyName(strategy)].rules
    assert rule.metric == "health_metric"


@pytest.mark.parametrize("strategy", ["dontschedule", "deschedule", "labeling"])
@pytest.mark.parametrize("broken", [{}, {**GOOD, "operator": "Matches"}, {**GOOD, "target": "x"}])
def test_all_of_with_an_invalid_rule_is_impossible(strategy, broken):
    body = rules({**GOOD, "labels": ["a=1"]}, broken, logicalOperator="allOf")
    found = parse({strategy: body}).strategies[StrategyName(strategy)]
    assert (found.all_of, found.impossible) == (True, True)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "it has no list of rules"),
        (None, "it has no list of rules"),
        ([], "it has no list of rules"),
        ({"rules": None}, "it has no list of rules"),
        ({"rules": {}}, "it has no list of rules"),
        (
            rules(GOOD, logicalOperator="oneOf"),
            "logicalOperator 'oneOf' is neither anyOf nor allOf",
        ),
        (rules(GOOD, logicalOperator=["allOf"]), "logicalOperator .* is neither anyOf nor allOf"),
        (rules(GOOD, logicalOperator={"a": 1}), "logicalOperator .* is neither anyOf nor allOf"),
        (rules(GOOD, logicalOperator=7), "logicalOperator 7 is neither anyOf nor allOf"),
    ],
)
def test_invalid_strategy_is_not_enforced_and_its_neighbour_works(body, says):
    found = parse({"dontschedule": body, "deschedule": rules(GOOD)})
    (problem,) = found.problems
    assert re.search(rf"^dontschedule: {says}.*: the strategy is not enforced$", problem)
    assert set(found.strategies) == {StrategyName.DESCHEDULE}


@pytest.mark.parametrize("logical", ["anyOf", "", None])
def test_any_of_is_the_default(logical):
    body = rules(GOOD, logicalOperator=logical)
    assert not parse({"deschedule": body}).strategies[StrategyName.DESCHEDULE].all_of


def test_unknown_strategy_is_reported_with_the_known_ones():
    found = parse({"reschedule": rules(GOOD), "dontschedule": rules(GOOD)})
    assert found.problems == (
        "strategy 'reschedule' is unknown (one of dontschedule, scheduleonmetric, deschedule, "
        "labeling): left out",
    )
    assert set(found.strategies) == {StrategyName.DONTSCHEDULE}


@pytest.mark.parametrize(
    "spec", [None, [], "x", {}, {"strategies": None}, {"strategies": []}, {"strategies": 5}]
)
def test_policy_without_strategies_reports_so(spec):
    found = policy.parse({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
    assert found.problems == ("spec.strategies: missing",)
    assert not found.strategies


def test_policy_without_a_spec_reports_so():
    found = policy.parse({"metadata": {"name": "p", "namespace": "ns"}})
    assert found.problems == ("spec.strategies: missing",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("novalue", "write it as name=value"),
        ("", "write it as name=value"),
        ("=v", "'' is not a label name"),
        ("a b=v", "'a b' is not a label name"),
        ("a/b=v", "is not a label prefix|is not a label name"),
        ("-a=v", "'-a' is not a label name"),
        (f"{'x' * 64}=v", "is not a label name"),
        ("a=b=c", "'b=c' is not a label value"),
        ("a=v ", "'v ' is not a label value"),
        (f"a={'x' * 64}", "is not a label value"),
        (None, "write it as name=value"),
        (5, "write it as name=value"),
        ({"a": "b"}, "write it as name=value"),
    ],
)
def test_invalid_label_is_omitted_and_its_neighbours_work(text, says):
    found = parse({"labeling": rules(labeling(text, "good=1"))})
    (problem,) = found.problems
    assert re.search(rf"^labeling: rule 1: label .*({says}).*: left out$", problem)
    (rule,) = found.strategies[StrategyName.LABELING].rules
    assert rule.labels == (Label(f"{PREFIX}/good", "1"),)


def test_empty_label_value_is_valid():
    found = parse({"labeling": rules(labeling("a="))})
    assert found.problems == ()
    assert found.strategies[StrategyName.LABELING].rules[0].labels == (Label(f"{PREFIX}/a", ""),)


@pytest.mark.parametrize("labels", [None, [], "a=1", {"a": "1"}])
def test_labeling_rule_without_labels_reports_so(labels):
    body = {**GOOD, "labels": labels}
    (problem,) = parse({"labeling": rules(body)}).problems
    assert re.search("labeling: rule 1: it names no labels, so it sets none", problem)


def test_labels_have_no_effect_in_other_strategies():
    found = parse({"dontschedule": rules({**GOOD, "labels": ["not a label"]})})
    assert found.problems == ()
    assert found.strategies[StrategyName.DONTSCHEDULE].rules[0].labels == ()


def test_rules_may_name_one_label_with_any_operators():
    found = parse(
        {
            "labeling": rules(
                labeling("card=0", "zone=a", operator="GreaterThan"),
                labeling("card=1", operator="LessThan"),
                labeling("card=2", operator="Equals"),
            )
        }
    )
    assert found.problems == ()
    assert [
        [str(label.key) for label in rule.labels] for rule in found.strategies["labeling"].rules
    ] == [[f"{PREFIX}/card", f"{PREFIX}/zone"], [f"{PREFIX}/card"], [f"{PREFIX}/card"]]


def test_invalid_rule_leaves_the_labels_of_the_others():
    found = parse(
        {"labeling": rules(labeling("a=1"), labeling("a=2", operator="LessThan", target="x"))}
    )
    assert len(found.problems) == 1
    assert found.strategies[StrategyName.LABELING].rules[0].labels


def test_deschedule_needs_a_name_valid_as_a_label_key():
    found = parse({"deschedule": rules(GOOD), "dontschedule": rules(GOOD)}, name="x" * 64)
    problem, _unnameable = found.problems
    assert re.search("^deschedule: the policy's name cannot be a label key", problem)
    assert set(found.strategies) == {StrategyName.DONTSCHEDULE}


def test_labeling_needs_a_name_valid_as_a_label_prefix():
    found = parse({"labeling": rules(labeling("a=1"))}, name="x" * 250)
    (problem,) = found.problems
    assert re.search("is not a label prefix", problem)


def test_only_the_first_rule_of_scheduleonmetric_counts():
    first = {"metricname": "a", "operator": "LessThan", "target": 5}
    found = parse({"scheduleonmetric": rules(first, {"metricname": "b", "operator": "nonsense"})})
    assert found.problems == ()
    assert [rule.metric for rule in found.strategies[StrategyName.SCHEDULEONMETRIC].rules] == ["a"]
    assert found.metrics == {"a"}


def test_ranking_by_equals_is_reported():
    found = parse({"scheduleonmetric": rules({"metricname": "a", "operator": "Equals"})})
    (problem,) = found.problems
    assert re.search("^scheduleonmetric: Equals ranks nothing", problem)


def test_empty_list_of_rules_is_no_problem_and_no_rule():
    found = parse({"dontschedule": rules(), "scheduleonmetric": rules()})
    assert found.problems == ()
    assert found.metrics == frozenset()


def test_equal_objects_make_equal_policies():
    """A repeated watch event must not count as a change."""
    assert parse({"dontschedule": rules(GOOD)}) == parse({"dontschedule": rules(GOOD)})


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["rules", "metricname", "operator", "target", "labels", "logicalOperator", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*StrategyName, "other"]), json))
def test_no_content_fails_the_whole_policy(strategies):
    found = parse({**strategies, "deschedule": rules(GOOD)})
    assert found.strategies[StrategyName.DESCHEDULE].rules
    assert all(len(problem) < 400 for problem in found.problems)


def test_strategy_with_too_many_rules_is_not_enforced_and_others_are(parsed, rule):
    """A single policy must not stop the evaluation of all others."""
    many = [rule("m Equals 1")] * (MOST_RULES + 1)
    found = parsed(dontschedule=many, deschedule=many[1:])
    assert found.strategies.keys() == {StrategyName.DESCHEDULE}
    assert found.problems == (
        "dontschedule: it has 101 rules, more than 100: the strategy is not enforced",
    )


def test_first_labels_are_set_if_there_are_too_many(parsed, rule):
    """Nodes have to carry all labels."""
    found = parsed(
        labeling=[rule("m Equals 1", *(f"l{n}-{m}=x" for m in range(30))) for n in range(2)]
    )
    keys = [label.key for r in found.strategies[StrategyName.LABELING].rules for label in r.labels]
    assert (
        keys
        == [f"telemetry.aware.scheduling.demo/l{n}-{m}" for n in range(2) for m in range(30)][
            :MOST_LABELS
        ]
    )
    assert found.problems == ("labeling: it names 60 labels, more than 50: the rest is left out",)


class CountedText(str):
    """A label that counts how many were parsed."""

    __slots__ = ()
    read = 0

    def partition(self, separator):
        CountedText.read += 1
        return super().partition(separator)


def test_labels_beyond_the_limit_of_a_strategy_are_not_read(parsed, rule):
    """One policy of 1.2 MB must not block the event loop."""
    CountedText.read = 0
    texts = [CountedText(f"l{n}=x") for n in range(20_000)]
    found = parsed(labeling=[rule("m Equals 1", *texts), rule("m Equals 2", *texts)])
    assert CountedText.read == 1_000
    assert found.problems == (
        "labeling: rule 1: it names 20000 labels, more than 1000 in the strategy: the rest is left out",
        "labeling: rule 2: it names 20000 labels, more than 1000 in the strategy: the rest is left out",
        "labeling: it names 1000 labels, more than 50: the rest is left out",
    )


def test_rules_may_repeat_their_labels(parsed, rule):
    labels = [f"l{n}=x" for n in range(10)]
    found = parsed(labeling=[rule(f"m Equals {n}", *labels) for n in range(MOST_RULES)])
    assert found.problems == ()


def test_label_that_is_no_string_is_omitted(parsed, rule):
    found = parse({"labeling": rules(labeling({"a": ["b=c"] * 100_000}, "card=0"))})
    assert [label.value for label in found.strategies[StrategyName.LABELING].rules[0].labels] == [
        "0"
    ]
    assert "write it as name=value" in found.problems[0]


def test_known_strategies_are_read_among_too_many():
    found = parse({**{f"s{n}": {} for n in range(10_000)}, "dontschedule": rules(GOOD)})
    assert found.strategies.keys() == {StrategyName.DONTSCHEDULE}
    assert found.problems == ("it names 10001 strategies: unknown ones are left out",)


def test_overlong_duration_is_not_summed():
    found = parse({"dontschedule": rules({**GOOD, "for": "1s" * 100_000})})
    assert "not a duration" in found.problems[0]


def test_some_of_many_problems_are_reported_and_the_rest_counted(parsed, rule):
    found = parsed(labeling=[rule("m Equals 1", *["/=/"] * 1_000)])
    assert len(found.problems) == 21
    assert found.problems[-1] == "and 980 more problems"


@pytest.mark.parametrize(("length", "flawed"), [(253, False), (254, True)])
def test_metric_name_is_at_most_253_characters(parsed, rule, length, flawed):
    found = parsed(dontschedule=[rule(f"{'m' * length} Equals 1")])
    assert bool(found.problems) == flawed


RISK = {"metricname": "plimsoll_risk_cpu", "operator": "GreaterThan", "target": 0.3}


@pytest.mark.parametrize("terms", [{"for": "30s"}, {"clearAfter": "1m"}])
@pytest.mark.parametrize("of_the_strategy", [False, True])
def test_per_pod_rule_has_no_durations(terms, of_the_strategy):
    body = rules(RISK, **terms) if of_the_strategy else rules({**RISK, **terms})
    found = parse({"dontschedule": body})
    assert found.problems == (
        "dontschedule: rule 1: for and clearAfter have no effect here: plimsoll_risk_cpu depends on the pod being "
        "scheduled, so it is compared for each pod without delay",
    )
    (rule,) = found.strategies[StrategyName.DONTSCHEDULE].rules
    assert not rule.options.timed


def test_per_pod_ranking_has_no_durations():
    body = {**RISK, "operator": "LessThan", "for": "30s"}
    (problem,) = parse({"scheduleonmetric": rules(body)}).problems
    assert "have no effect here: plimsoll_risk_cpu depends on the pod" in problem


def test_scorer_rule_has_durations_outside_placement():
    found = parse({"deschedule": rules({**RISK, "for": "30s"})})
    assert found.problems == ()
    assert found.strategies[StrategyName.DESCHEDULE].rules[0].options.for_seconds == 30


def test_when_missing_applies_to_per_pod_rules():
    found = parse({"dontschedule": rules({**RISK, "for": "30s", "whenMissing": "violate"})})
    (rule,) = found.strategies[StrategyName.DONTSCHEDULE].rules
    assert rule.options == replace(PLAIN, when_missing=WhenMissing.VIOLATE)


def test_policies_evaluated_per_pod_are_detected():
    strategies = {
        "dontschedule": rules(GOOD, RISK),
        "scheduleonmetric": rules({"metricname": "plimsoll_reward", "operator": "GreaterThan"}),
        "deschedule": rules({**RISK, "metricname": "plimsoll_congestion"}),
    }
    assert parse(strategies).per_pod_metrics == {"plimsoll_risk_cpu", "plimsoll_reward"}
    assert (
        parse({"dontschedule": rules(GOOD), "deschedule": rules(RISK)}).per_pod_metrics
        == frozenset()
    )


@pytest.mark.parametrize(
    ("metric", "way"),
    [
        (
            "node_condition_gpu.nvidia.com/XID-79",
            "write node_condition_gpu_nvidia_com_XID_79, with _",
        ),
        ("gpu.utilization", "write gpu_utilization, with _"),
        ("example.com/disk.wear:peer_ratio", "write example_com_disk_wear:peer_ratio, with _"),
        ("rate(node_cpu_seconds_total[5m])", "PromQL needs a recording rule (docs/rules.md)"),
        ('up{job="node"}', "a name in --prometheusQueries"),
        ("instance:node_cpu:ratio", "a name in --prometheusQueries"),
        ("a / b", "PromQL needs a recording rule"),
    ],
)
def test_message_about_a_metric_name_has_what_to_write(metric, way):
    (problem,) = parse({"dontschedule": rules({**GOOD, "metricname": metric})}).problems
    assert way in problem


@pytest.mark.parametrize(
    ("metric", "underscored"),
    [
        ("rate(node_cpu_seconds_total[5m])", "rate_node_cpu_seconds_total_5m"),
        ('up{job="node"}', "up_job_node"),
        ("instance:node_cpu:ratio", "instance_node_cpu_ratio"),
        ("system.cpu.util", "system_cpu_util"),
        ("1 - avg(x) / avg(y)", "1_avg_x_avg_y"),
    ],
)
def test_message_about_a_metric_name_has_a_rule_a_mapping_and_a_valid_name(metric, underscored):
    (problem,) = parse({"dontschedule": rules({**GOOD, "metricname": metric})}).problems
    assert "a recording rule (docs/rules.md) or a name in --prometheusQueries" in problem
    assert underscored in problem
    assert parse({"dontschedule": rules({**GOOD, "metricname": underscored})}).problems == ()


def test_message_about_a_long_metric_name_is_short():
    for metric in ("a" * 300, "x(" * 5000, "(" * 5000):
        (problem,) = parse({"dontschedule": rules({**GOOD, "metricname": metric})}).problems
        assert len(problem) <= 500


def test_policy_that_no_pod_can_name_has_a_problem():
    name = "overload-" + "a" * 61
    (problem,) = parse({"dontschedule": rules(GOOD)}, name=name).problems
    assert problem.startswith("metadata.name: it has 70 characters, and a label has at most 63")
    assert parse({"dontschedule": rules(GOOD)}, name="a" * 63).problems == ()
    assert parse({"labeling": rules(labeling("a=1"))}, name=name).problems == ()


def test_policy_whose_name_is_no_label_value_has_a_problem_that_says_why():
    (problem,) = parse({"dontschedule": rules(GOOD)}, name="ends.with.dots-").problems
    assert "'ends.with.dots-' is not a label value" in problem
    assert "characters, and a label" not in problem
