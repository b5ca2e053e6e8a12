"""The limits on metrics and rules, and the problems of policies over them."""

from dataclasses import replace

import numpy as np

from evaluator.core.policy.metric_limit import LimitedReadings, RuleLimit, limit_metrics
from evaluator.core.readings.store import Store


def many(count, prefix="m"):
    return frozenset(f"{prefix}{number:06}" for number in range(count))


def test_all_metrics_are_subscribed_to_within_the_limit():
    found = limit_metrics([frozenset("ab"), frozenset("bc")], 3)
    assert (found.requested, found.left_out) == (frozenset("abc"), frozenset())


def test_policy_over_the_limit_loses_its_own_metrics_and_no_others():
    greedy, modest = many(100_000), frozenset({"zeta", "m099999"})
    found = limit_metrics([greedy, modest], 1000)
    assert len(found.requested) == 1000
    assert modest <= found.requested
    assert found.requested | found.left_out == greedy | modest
    assert not found.requested & found.left_out


def test_omitted_metrics_do_not_depend_on_policy_order():
    named = [many(5, "a"), many(5, "b"), many(3, "c"), frozenset({"a000004", "z"})]
    found = limit_metrics(named, 7)
    assert len(found.requested) == 7
    assert limit_metrics(named[::-1], 7) == found


def test_scorer_metrics_do_not_count_towards_the_limit():
    found = limit_metrics([many(5)], 3, always=frozenset({"x", "y"}))
    assert frozenset({"x", "y"}) <= found.requested
    assert len(found.requested - {"x", "y"}) == 3
    assert found.left_out == many(5) - found.requested
    assert limit_metrics([many(3)], 3, always=frozenset({"x", "y"})).left_out == frozenset()


def test_observed_policy_displaces_nothing_of_enforced_ones(parsed, rule):
    found = limit_metrics([many(5, "a")], 6, observed=[frozenset({"x", "y"})])
    assert many(5, "a") <= found.requested
    assert len(found.left_out) == 1
    small = replace(rules_of(parsed, rule, "small", dontschedule=1), observed_by="--observe")
    kept, limited = RuleLimit(4).limited([small, rules_of(parsed, rule, "big", dontschedule=4)])
    assert (counted(kept), counted(limited)) == ({"dontschedule": 4}, {})


def test_omitted_metric_is_not_pending_and_is_reported():
    store = Store(stale_after=30.0, started=0.0)
    readings = LimitedReadings(store, {"b"}, 1)
    readings.subscribe(["a"])
    asked = readings.column("a", ["node-a"], 1.0)
    left_out = readings.column("b", ["node-a"], 1.0)
    assert (asked.unreported.all(), asked.fault) == (True, "")
    assert not left_out.unreported.any()
    assert np.isnan(left_out.values).all()
    assert left_out.fault == "not requested: policies name more than --maxMetrics=1"


def rules_of(parsed, rule, name, **counts):
    texts = {
        strategy: [rule(f"m{n} GreaterThan {n}") for n in range(count)]
        for strategy, count in counts.items()
    }
    return parsed(name, **texts)


def counted(policy):
    return {str(name): len(strategy.rules) for name, strategy in policy.strategies.items()}


def test_policies_within_the_rule_limit_are_unchanged(parsed, rule):
    policies = [
        rules_of(parsed, rule, "a", dontschedule=2),
        rules_of(parsed, rule, "b", deschedule=1),
    ]
    ration = RuleLimit(3)
    assert ration.limited(policies) is policies
    assert ration.left_out == 0


def test_policies_with_most_rules_lose_whole_strategies_and_report_so(parsed, rule):
    greedy = rules_of(parsed, rule, "greedy", dontschedule=90, deschedule=5)
    modest = [rules_of(parsed, rule, f"modest-{n}", dontschedule=4) for n in range(5)]
    ration = RuleLimit(30)
    found = {policy.key.name: policy for policy in ration.limited([greedy, *modest])}
    assert counted(found.pop("greedy")) == {"deschedule": 5}
    assert all(policy.strategies and not policy.problems for policy in found.values())
    assert ration.left_out == 90
    [short] = [p for p in ration.limited([greedy, *modest]) if p.problems]
    assert short.problems == (
        "dontschedule: its 90 rules are more than --maxRules=30 leaves, a limit on the rules of all policies together: "
        "the strategy is not enforced",
    )


def test_omitted_rules_do_not_depend_on_policy_order(parsed, rule):
    policies = [rules_of(parsed, rule, f"p{n}", dontschedule=7, deschedule=3) for n in range(5)]

    def kept(order):
        return {policy.key: counted(policy) for policy in RuleLimit(23).limited(order)}

    assert kept(policies) == kept(policies[::-1])


def test_rule_limit_is_recomputed_when_a_policy_changes(parsed, rule):
    ration, large = RuleLimit(5), rules_of(parsed, rule, "a", dontschedule=9)
    assert ration.limited([large])[0].problems
    small = rules_of(parsed, rule, "a", dontschedule=5)
    assert ration.limited([small]) == [small]
    assert ration.left_out == 0
