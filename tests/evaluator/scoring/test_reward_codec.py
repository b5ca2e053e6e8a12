"""What is written is read again; what was mangled is no state, and said to be none."""

import pytest

from evaluator.model.node_index import NodeIndex
from evaluator.scoring.reward_codec import KEY, StateError, decode, encode
from evaluator.scoring.rewards import PodOutcome, Rewards

NODES = NodeIndex(("a", "b", "c"))


def learned(times=1000):
    rewards = Rewards().among(set(NODES))
    for number in range(times):
        node = NODES[number % 3]
        rewards = rewards.learned([PodOutcome(f"kind-{number % 7}", node, number % 5 > 0)])
    return rewards


def test_what_is_written_is_read_again():
    before = learned()
    after = decode(encode(before), Rewards())
    assert (after.nodes, list(after.kinds)) == (before.nodes, list(before.kinds))
    for kind in before.kinds:
        written, read = before.values(kind, NODES).tolist(), after.values(kind, NODES).tolist()
        assert read == pytest.approx(written, abs=1e-12)


def test_the_flags_are_those_of_today():
    blank = Rewards(weight=0.5)
    after = decode(encode(learned()), blank)
    assert after.weight == 0.5


def test_nothing_written_is_nothing_known():
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
def test_what_was_mangled_is_no_state(text):
    with pytest.raises(StateError, match=KEY):
        decode({KEY: text}, Rewards())


def test_the_most_there_can_be_has_room_in_an_object():
    """Kubernetes takes a ConfigMap's data up to 1 MiB; etcd takes 1.5 MiB for all of an object."""
    nodes = NodeIndex(f"node-{number:04}.of.a-large-cluster.example" for number in range(5000))
    rewards = Rewards().among(set(nodes))
    for number in range(40):
        rewards = rewards.learned([PodOutcome(f"kind-{number}", node, 0) for node in nodes[:3000]])
        rewards = rewards.learned([PodOutcome(f"kind-{number}", node, 1) for node in nodes[:3000]])
    assert rewards.dropped
    assert 500_000 < len(encode(rewards)[KEY].encode()) < 1 << 20
