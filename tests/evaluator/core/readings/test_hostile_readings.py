"""Any double that one node reports leaves the decisions about other nodes unchanged."""

from hypothesis import given

from evaluator.core.policy.problems import refusal_problem
from tests.evaluator.core.readings.hostile import CASES, MALLORY, OTHERS, with_and_without


def problems_of_rules(decision):
    """The problems without those that count nodes: all are refused, or on some rules name different values of a label."""
    return {
        problem
        for problem in decision.problems
        if problem != refusal_problem(decision.policy) and "name different values" not in problem
    }


def about(decisions, key):
    """The results about the other nodes."""
    decision = decisions.policies[key]
    return (
        {node: decision.dontschedule.get(node) for node in OTHERS},
        {node: decision.deschedule.get(node) for node in OTHERS},
        decision.ranking.scores(OTHERS),
        {node: dict(decisions.labels.get(node, {})) for node in OTHERS},
        {(m, node) for m, missing in decision.missing.items() for node in {*missing} - {MALLORY}},
        problems_of_rules(decision),
    )


@given(*CASES)
def test_values_of_one_node_never_change_decisions_about_another(texts, readings, spoilt):
    policy, (spoiled, _), (without, _) = with_and_without(texts, readings, spoilt)
    assert about(spoiled, policy.key) == about(without, policy.key)
    scores = spoiled.policies[policy.key].ranking.scores((*OTHERS, MALLORY))
    assert all(type(score) is int and 0 <= score <= 10 for _, score in scores)
