"""How a limit is divided between namespaces and their policies."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.limits.fair_share import Share, divide
from evaluator.core.policy.limits.metrics import limit_metrics

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
