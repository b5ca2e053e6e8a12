"""The limit on metrics, and what is reported for those over it."""

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.limits.metrics import LimitedReadings, limit_metrics
from evaluator.core.readings.store import Store


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
