"""How a limit is divided between namespaces and their policies."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.limits import LimitedReadings, RuleLimit, Share, divide, limit_metrics
from evaluator.core.readings.store import Store

keys = st.builds(PolicyKey, st.sampled_from("abcd"), st.sampled_from("pqrstu"))
demands = st.dictionaries(keys, st.integers(0, 30), max_size=20)
free = st.integers(0, 60)
quotas = st.none() | st.integers(1, 20)


def own(demand):
    """Claims of policies that share no metric."""
    return {key: [(key, n) for n in range(count)] for key, count in demand.items()}


def granted(demand, units, quota=None):
    found = [key for key, _ in divide(own(demand), lambda _: 1, Share(units, quota))]
    return Counter(found)


def by_namespace(counts):
    found = Counter()
    for key, count in counts.items():
        found[key.namespace] += count
    return found


@given(demands, free, quotas)
def test_limit_and_quota_hold_and_nothing_is_wasted(demand, units, quota):
    found = granted(demand, units, quota)
    wanted = by_namespace(demand)
    most = {name: min(count, quota or count) for name, count in wanted.items()}
    assert all(found[key] <= count for key, count in demand.items())
    assert all(count <= most[name] for name, count in by_namespace(found).items())
    assert found.total() == min(units, sum(most.values()))


@given(demands, free)
def test_namespace_loses_only_if_no_other_uses_more(demand, units):
    found = granted(demand, units)
    used, wanted = by_namespace(found), by_namespace(demand)
    for name, count in wanted.items():
        if used[name] < count:
            assert max(used.values(), default=0) <= used[name] + 1
    for key, count in demand.items():
        if found[key] < count:
            beside = [found[other] for other in demand if other.namespace == key.namespace]
            assert max(beside) <= found[key] + 1


@given(demands, free)
def test_share_of_a_namespace_does_not_depend_on_the_number_of_others_policies(demand, units):
    used, wanted = by_namespace(granted(demand, units)), by_namespace(demand)
    namespaces = sum(count > 0 for count in wanted.values())
    for name, count in wanted.items():
        assert used[name] >= min(count, units // max(1, namespaces))


metrics = st.dictionaries(keys, st.frozensets(st.sampled_from("abcdefghijkl")), max_size=12)


@given(metrics, metrics, st.integers(1, 12), quotas, st.randoms(use_true_random=False))
def test_metrics_do_not_depend_on_the_order_of_policies(named, observed, most, quota, random):
    observed = {key: one for key, one in observed.items() if key not in named}
    found = limit_metrics(named, most, observed=observed, quota=quota)
    shuffled = list(named.items())
    random.shuffle(shuffled)
    assert limit_metrics(dict(shuffled), most, observed=observed, quota=quota) == found
    union = frozenset().union(*named.values(), *observed.values())
    assert found.requested | found.left_out.keys() == union
    assert len(found.requested) <= most
    if quota is None:
        assert len(found.requested) == min(most, len(union))


costs = st.lists(st.integers(1, 9), max_size=4)


@given(st.dictionaries(keys, costs, max_size=12), free, quotas)
def test_claims_of_several_units_are_granted_whole(demand, units, quota):
    share = Share(units, quota)
    found = Counter()
    for key, cost in divide(demand, int, share):
        found[key.namespace] += cost
    assert found == share.used
    assert found.total() + share.free == units
    assert all(count <= (quota or units) for count in found.values())


def many(count, prefix="m"):
    return frozenset(f"{prefix}{number:06}" for number in range(count))


def named(*claims, namespace="ns"):
    return {PolicyKey(namespace, f"p{number}"): one for number, one in enumerate(claims)}


def test_all_metrics_are_subscribed_to_within_the_limit():
    found = limit_metrics(named(frozenset("ab"), frozenset("bc")), 3)
    assert (found.requested, found.left_out) == (frozenset("abc"), {})


def test_policy_over_the_limit_loses_its_own_metrics_and_no_others():
    greedy, modest = many(100_000), frozenset({"zeta", "m099999"})
    found = limit_metrics(named(greedy, modest), 1000)
    assert len(found.requested) == 1000
    assert modest <= found.requested
    assert found.requested | found.left_out.keys() == greedy | modest
    assert not found.requested & found.left_out.keys()


def test_omitted_metrics_do_not_depend_on_policy_order():
    claims = named(many(5, "a"), many(5, "b"), many(3, "c"), frozenset({"a000004", "z"}))
    found = limit_metrics(claims, 7)
    assert len(found.requested) == 7
    assert limit_metrics(dict(reversed(claims.items())), 7) == found


def test_scorer_metrics_do_not_count_towards_the_limit():
    found = limit_metrics(named(many(5)), 3, always=frozenset({"x", "y"}))
    assert frozenset({"x", "y"}) <= found.requested
    assert len(found.requested - {"x", "y"}) == 3
    assert found.left_out.keys() == many(5) - found.requested
    assert limit_metrics(named(many(3)), 3, always=frozenset({"x", "y"})).left_out == {}


def test_observed_policy_displaces_nothing_of_enforced_ones(parsed, rule):
    found = limit_metrics(
        named(many(5, "a")), 6, observed=named(frozenset({"x", "y"}), namespace="b")
    )
    assert many(5, "a") <= found.requested
    assert len(found.left_out) == 1


def test_omitted_metric_is_not_pending_and_is_reported():
    store = Store(stale_after=30.0, started=0.0)
    readings = LimitedReadings(store, {"b": "not requested: why"})
    readings.subscribe(["a"])
    asked = readings.column("a", ["node-a"], 1.0)
    left_out = readings.column("b", ["node-a"], 1.0)
    assert (asked.unreported.all(), asked.fault) == (True, "")
    assert not left_out.unreported.any()
    assert np.isnan(left_out.values).all()
    assert left_out.fault == "not requested: why"


def test_many_small_policies_of_a_namespace_take_nothing_from_another():
    flood = {PolicyKey("flood", f"p{n}"): frozenset({f"flood{n}"}) for n in range(1_010)}
    shop = named(many(20, "a"), many(20, "b"), namespace="shop")
    found = limit_metrics(flood | shop, 1000)
    assert many(20, "a") | many(20, "b") <= found.requested
    assert len(found.left_out) == 50
    assert {*found.left_out.values()} == {
        "not requested: policies name more than --maxMetrics=1000, of which namespaces use flood 960, shop 40"
    }


def test_quota_limits_a_namespace_and_no_other():
    claims = named(many(9), namespace="a") | named(many(4, "b"), namespace="b")
    found = limit_metrics(claims, 100, quota=4)
    assert many(4, "b") <= found.requested
    assert {*found.left_out.values()} == {
        "not requested: namespace a uses its --maxNamespaceMetrics=4"
    }
    assert len(found.left_out) == 5


def test_metric_that_another_namespace_requests_is_no_use_of_a_quota():
    claims = {PolicyKey("a", "p"): many(4), PolicyKey("b", "p"): many(4) | {"own"}}
    assert limit_metrics(claims, 100, quota=4).left_out == {}


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
