"""Scores by learned rewards, and the flags."""

import pytest

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.features.scorers.plugin import ClusterSnapshot, Scorer
from evaluator.features.scorers.plugins.reward import Reward, RewardOptions, weight
from evaluator.features.scorers.rewards import Rewards


def assessed(rewards, nodes=("a", "b"), kind="web"):
    scorer: Scorer = Reward()
    return scorer.score(ClusterSnapshot(NodeIndex(nodes), rewards=rewards), PodView(kind=kind))


@pytest.mark.parametrize(
    ("failures", "score"), [(0, 10), (1, 9), (2, 8), (3, 7), (7, 4), (10, 3), (22, 0)]
)
def test_failures_in_a_row_lower_the_score(failures, score):
    rewards = RewardOptions().no_rewards
    for _ in range(failures):
        rewards = rewards.observed("web", "a", 0)
    assert assessed(rewards).scores["rl-priority"].tolist() == [score, 10]
    assert assessed(rewards, kind="db").scores["rl-priority"].tolist() == [10, 10]


def test_values_are_explained():
    found = assessed(Rewards().observed("web", "b", 0))
    assert found.facts["reward"].tolist() == [1.0, 0.9]
    assert not found.refusals


def test_no_nodes_is_no_error():
    assert assessed(Rewards(), nodes=()).scores["rl-priority"].tolist() == []


def test_flags_configure_the_rewards():
    options = RewardOptions(reward_weight=0.5)
    assert options.no_rewards == Rewards(weight=0.5)


@pytest.mark.parametrize("text", ["0", "-0.1", "1.1", "nan", "inf", "", "ten"])
def test_weight_is_between_0_and_1(text):
    with pytest.raises(ValueError, match="not a number above 0 and up to 1"):
        weight(text)
    assert weight("1") == 1.0
