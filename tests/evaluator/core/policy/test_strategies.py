"""The table of strategies."""

import pytest

from evaluator.core.policy.strategies import STRATEGIES, StrategyName


def test_conditions_of_strategies_differ():
    conditions = {strategy.row.condition for strategy in STRATEGIES.values()}
    assert len(conditions) == len(STRATEGIES)


@pytest.mark.parametrize(
    ("attribute", "strategy"),
    [("ranks", StrategyName.SCHEDULEONMETRIC), ("sets_labels", StrategyName.LABELING)],
)
def test_a_decision_has_one_ranking_and_one_strategy_with_labels(attribute, strategy):
    """decide() reads these two by name: another row like them needs code there."""
    assert [one for one in StrategyName if getattr(one.row, attribute)] == [strategy]


def test_strategies_have_at_most_one_meaning():
    for strategy in StrategyName:
        row = strategy.row
        assert row.ranks + row.sets_labels + row.determines_compliance == 1, strategy
        assert not row.marks or row.determines_compliance, strategy
