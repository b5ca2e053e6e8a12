"""Reasons that were read and updated equal those built anew."""

import weakref
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.evaluate import combine
from evaluator.core.policy.reasons import reasons
from evaluator.core.policy.types import Operator, Rule, Strategy
from evaluator.core.policy.violations import ViolationReasons

NODES = NodeIndex(f"n{number}" for number in range(12))
RULES = tuple(Rule(f"m{number}", Operator.GREATER_THAN, 1.0) for number in range(3))


@st.composite
def results(draw):
    """Several results of one strategy, each a few nodes away from the one before."""
    strategy = Strategy(RULES[: draw(st.integers(1, 3))], all_of=draw(st.booleans()))
    table = arrays(bool, (3, len(NODES), len(strategy.rules)))
    per_rule, missing, from_leader = draw(table)
    found = []
    for few in draw(st.lists(st.sets(st.integers(0, len(NODES) - 1), max_size=4), max_size=5)):
        rows = sorted(few)
        fresh = draw(table)[:, rows]
        per_rule, missing, from_leader = per_rule.copy(), missing.copy(), from_leader.copy()
        per_rule[rows], missing[rows], from_leader[rows] = fresh
        found.append(combine(strategy, per_rule, per_rule & missing, per_rule & from_leader))
    return strategy, found


def reasons_of(strategy, found):
    return ViolationReasons("cool", strategy, NODES, found)


@given(results(), st.lists(st.booleans(), min_size=5, max_size=5))
def test_updated_reasons_equal_new_ones(drawn, read):
    strategy, found = drawn
    before = {}
    for result, is_read in zip(found, read, strict=False):
        before = reasons_of(strategy, result).reuse(before)
        if is_read:
            assert before.by_name == reasons("cool", strategy, NODES, result)
    assert before == (reasons("cool", strategy, NODES, found[-1]) if found else {})


def test_reasons_do_not_keep_replaced_ones():
    strategy = Strategy(RULES[:1])
    none = NODES.no_rules(1)
    latest, replaced = {}, []
    for number in range(3):
        per_rule = np.arange(len(NODES)).reshape(-1, 1) <= number
        latest = reasons_of(strategy, combine(strategy, per_rule, none, none)).reuse(latest)
        assert len(latest.keys()) == number + 1
        replaced.append(weakref.ref(latest))
    assert [one() for one in replaced] == [None, None, latest]


def test_edited_policy_gets_new_reasons():
    none = NODES.no_rules(1)
    found = combine(Strategy(RULES[:1]), NODES.all.reshape(-1, 1), none, none)
    before = reasons_of(Strategy(RULES[:1]), found)
    edited = Strategy((replace(RULES[0], target=2.0),))
    assert before["n0"] == "violating cool: m0 GreaterThan 1"
    assert reasons_of(edited, found).reuse(before)["n0"] == "violating cool: m0 GreaterThan 2"
