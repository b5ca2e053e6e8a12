"""Rewards are encoded and decoded; corrupt data is reported."""

import pytest

from evaluator.core.model.node_index import NodeIndex
from evaluator.features.scorers.learning.codec import KEY, StateError, decode, encode
from evaluator.features.scorers.learning.rewards import PodOutcome, Rewards

NODES = NodeIndex(("a", "b", "c"))


def learned(times=1000):
    rewards = Rewards().among(set(NODES))
    for number in range(times):
        node = NODES[number % 3]
        rewards = rewards.learned([PodOutcome(f"kind-{number % 7}", node, number % 5 > 0)])
    return rewards


def test_encoded_rewards_are_decoded_again():
    before = learned()
    after = decode(encode(before), Rewards())
    assert (after.nodes, list(after.kinds)) == (before.nodes, list(before.kinds))
    for kind in before.kinds:
        written, read = before.values(kind, NODES).tolist(), after.values(kind, NODES).tolist()
        assert read == pytest.approx(written, abs=1e-12)


def test_decoded_rewards_use_the_current_flags():
    blank = Rewards(weight=0.5)
    after = decode(encode(learned()), blank)
    assert after.weight == 0.5


def test_missing_data_is_decoded_as_empty():
    assert decode({}, blank := Rewards(weight=0.5)) is blank


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
        decode({KEY: text}, Rewards())


def test_largest_state_fits_into_an_object():
    """Kubernetes accepts 1 MiB of ConfigMap data; etcd accepts 1.5 MiB per object."""
    nodes = NodeIndex(f"node-{number:04}.of.a-large-cluster.example" for number in range(5000))
    rewards = Rewards().among(set(nodes))
    for number in range(40):
        rewards = rewards.learned([PodOutcome(f"kind-{number}", node, 0) for node in nodes[:3000]])
        rewards = rewards.learned([PodOutcome(f"kind-{number}", node, 1) for node in nodes[:3000]])
    assert rewards.dropped
    assert 500_000 < len(encode(rewards)[KEY].encode()) < 1 << 20
