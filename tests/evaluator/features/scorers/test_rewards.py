"""Rewards of kinds on nodes: changes, start values, and eviction."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod_spec_view import kind_of
from evaluator.features.scorers.rewards import (
    KEY,
    PodOutcome,
    Rewards,
    StateError,
    decode_rewards,
    encode_rewards,
)
from tests.examples import examples

NODES = NodeIndex(("a", "b", "c", "d"))


def values(rewards, kind="web", nodes=NODES):
    return rewards.values(kind, nodes).tolist()


def failed(rewards, times, kind="web", node="a"):
    return rewards.learned([PodOutcome(kind, node, 0)] * times)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"podtype": "t", "app": "a", "name": "n"}, "t"),
        ({"app": "a", "name": "n"}, "a"),
        ({"name": "n", "tier": "x"}, "n"),
        ({"podtype": "", "app": "a"}, "a"),
        ({"tier": "x"}, "pod-0"),
        ({}, "pod-0"),
    ],
)
def test_kind_of_a_pod_is_derived(labels, kind):
    assert kind_of(labels, "pod-0") == kind


@pytest.mark.parametrize(
    ("times", "value"),
    [(1, 0.9), (2, 0.81), (3, 0.729), (7, 0.478297), (10, 0.348678), (22, 0.098477)],
)
def test_failures_in_a_row_lower_the_value(times, value):
    assert values(failed(Rewards(), times))[0] == pytest.approx(value, abs=5e-7)


def test_outcome_counts_for_its_kind_on_its_node():
    after = Rewards().observed("web", "b", 0)
    assert values(after) == [1.0, 0.9, 1.0, 1.0]
    assert values(after, "db") == [1.0] * 4


def test_recovered_kind_earns_again():
    after = failed(Rewards(), 2).observed("web", "a", 1)
    assert values(after)[0] == pytest.approx(0.9 * 0.81 + 0.1)


def test_weight_of_an_outcome_is_applied():
    assert values(Rewards(weight=0.5).observed("web", "a", 0))[0] == 0.5
    assert values(Rewards(weight=1.0).observed("web", "a", 0).observed("web", "a", 1))[0] == 1.0


def test_values_are_immutable():
    before = Rewards().observed("web", "a", 0)
    before.observed("web", "a", 0)
    before.among({"b"})
    assert values(before) == [0.9, 1.0, 1.0, 1.0]


def test_success_without_earlier_failure_is_not_stored():
    assert Rewards().observed("web", "a", 1).kinds == {}


def test_new_node_starts_at_the_mean_of_each_kind():
    before = (
        Rewards().among({"a", "b"}).learned([PodOutcome("web", "a", 0), PodOutcome("db", "b", 1)])
    )
    after = before.among({"a", "b", "c"})
    assert values(after)[:3] == [0.9, 1.0, pytest.approx(0.95)]
    assert values(after, "db")[:3] == [1.0, 1.0, 1.0]


def test_kind_newer_than_a_node_starts_at_one():
    after = Rewards().among({"a"}).observed("web", "a", 0).among({"a", "b"})
    assert values(after.observed("db", "a", 0), "db") == [0.9, 1.0, 1.0, 1.0]


def test_node_that_returns_is_new():
    before = failed(Rewards().among({"a", "b"}), 5)
    assert values(before.among({"b"}).among({"a", "b"}))[:2] == [1.0, 1.0]


def test_first_nodes_start_at_one():
    assert values(Rewards().among(set(NODES)).observed("web", "a", 1)) == [1.0] * 4


def test_same_nodes_change_nothing():
    before = failed(Rewards().among({"a"}), 1)
    assert before.among({"a"}) is before
    assert before.learned([]) is before


def test_least_recently_seen_kinds_are_dropped_when_full():
    after = Rewards(most_bytes=200)
    for kind in ("one", "two", "three", "one", "four", "five", "six"):
        after = after.observed(kind, "a", 0)
    assert list(after.kinds) == ["one", "four", "five", "six"]
    assert after.dropped == 2


def test_nodes_without_bound_leave_no_space_for_kinds():
    nodes = {f"node-{number}" for number in range(100)}
    after = Rewards(most_bytes=200).among(nodes).observed("one", "node-1", 0)
    assert (after.kinds, after.dropped) == ({}, 1)


NAMES = st.sampled_from(["a", "b", "c", "d"])
KINDS = st.sampled_from(["web", "db"])
OUTCOMES = st.lists(st.builds(PodOutcome, KINDS, NAMES, st.sampled_from([0, 1])), max_size=30)
STEPS = st.lists(OUTCOMES | st.sets(NAMES), max_size=10)


@given(STEPS, st.floats(0.0, 1.0, exclude_min=True))
@settings(max_examples=examples(25), deadline=None)
def test_values_stay_between_0_and_1_and_do_not_depend_on_grouping(steps, weight):
    at_once = one_by_one = Rewards(weight=weight)
    for step in steps:
        if isinstance(step, set):
            at_once, one_by_one = at_once.among(step), one_by_one.among(step)
        else:
            at_once = at_once.learned(step)
            for outcome in step:
                one_by_one = one_by_one.observed(*outcome)
    assert at_once == one_by_one
    assert list(at_once.kinds) == list(one_by_one.kinds)
    for kind in ("web", "db"):
        assert all(0.0 <= value <= 1.0 for value in values(at_once, kind))


def learned(times=1000):
    rewards = Rewards().among(set(NODES))
    for number in range(times):
        node = NODES[number % 3]
        rewards = rewards.learned([PodOutcome(f"kind-{number % 7}", node, number % 5 > 0)])
    return rewards


def test_encoded_rewards_are_decoded_again():
    before = learned()
    after = decode_rewards(encode_rewards(before), Rewards())
    assert (after.nodes, list(after.kinds)) == (before.nodes, list(before.kinds))
    for kind in before.kinds:
        written, read = before.values(kind, NODES).tolist(), after.values(kind, NODES).tolist()
        assert read == pytest.approx(written, abs=1e-12)


def test_decoded_rewards_use_the_current_flags():
    blank = Rewards(weight=0.5)
    after = decode_rewards(encode_rewards(learned()), blank)
    assert after.weight == 0.5


def test_missing_data_is_decoded_as_empty():
    assert decode_rewards({}, blank := Rewards(weight=0.5)) is blank


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"nodes": ["a"], "kinds": {"web": {"1": 0.5}}}',
        '{"nodes": ["a"], "kinds": {"web": {"-2": 0.5}}}',
        '{"nodes": ["a"], "kinds": {"web": {"-1": 0.5}}}',
        '{"nodes": ["a"], "kinds": {"web": {"0": 1.5}}}',
        '{"nodes": ["a"], "kinds": {"web": {"0": -0.1}}}',
        '{"nodes": ["a"], "kinds": {"web": {"0": NaN}}}',
        '{"nodes": ["a"], "kinds": {"web": {"0": "much"}}}',
        '{"nodes": ["a"], "kinds": {"web": {"a": 0.5}}}',
    ],
)
def test_corrupt_data_is_rejected(text):
    with pytest.raises(StateError, match=KEY):
        decode_rewards({KEY: text}, Rewards())


def test_largest_state_fits_into_an_object():
    """Kubernetes accepts 1 MiB of ConfigMap data; etcd accepts 1.5 MiB per object."""
    nodes = NodeIndex(f"node-{number:04}.of.a-large-cluster.example" for number in range(5000))
    rewards = Rewards().among(set(nodes))
    for number in range(40):
        rewards = rewards.learned([PodOutcome(f"kind-{number}", node, 0) for node in nodes[:3000]])
        rewards = rewards.learned([PodOutcome(f"kind-{number}", node, 1) for node in nodes[:3000]])
    assert rewards.dropped
    assert 500_000 < len(encode_rewards(rewards)[KEY].encode()) < 1 << 20
