"""The limit on rules, and the problems of policies over it."""

from dataclasses import replace

from evaluator.core.policy.limits.rules import RuleLimit


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
        "dontschedule: it has 90 rules, more than --maxRules=30 leaves, of which namespaces use ns 25: "
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


def test_observed_policy_displaces_no_rule_of_enforced_ones(parsed, rule):
    small = replace(rules_of(parsed, rule, "small", dontschedule=1), observed_by="--observe")
    limited = RuleLimit(4).limited([small, rules_of(parsed, rule, "big", dontschedule=4)])
    kept = {policy.key.name: counted(policy) for policy in limited}
    assert kept == {"big": {"dontschedule": 4}, "small": {}}


def test_many_small_policies_of_a_namespace_take_no_rules_from_another(parsed, rule):
    one = {"dontschedule": [rule("m Equals 1")]}
    flood = [parsed(f"p{n}", "flood", **one) for n in range(1_010)]
    shop = parsed("demo", "shop", dontschedule=[rule(f"m Equals {n}") for n in range(40)])
    ration = RuleLimit(1_000)
    found = {policy.key: policy for policy in ration.limited([*flood, shop])}
    assert found[shop.key] is shop
    assert ration.left_out == 50
    (problem,) = {text for policy in found.values() for text in policy.problems}
    assert problem.startswith(
        "dontschedule: it has 1 rule, more than --maxRules=1000 leaves, of which namespaces use flood 960, shop 40"
    )


def test_quota_limits_the_rules_of_a_namespace(parsed, rule):
    three = [rule(f"m Equals {n}") for n in range(3)]
    policies = [parsed(name, name[0], dontschedule=three) for name in ("a1", "a2", "b1")]
    found = {policy.key.name: policy for policy in RuleLimit(100, 5).limited(policies)}
    assert found["a2"].problems == (
        "dontschedule: it has 3 rules, more than --maxNamespaceRules=5 leaves its namespace, which uses 3: "
        "the strategy is not enforced",
    )
    assert not found["a1"].problems
    assert not found["b1"].problems
