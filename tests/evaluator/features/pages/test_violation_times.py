"""Since when nodes violate a strategy, over edits, new nodes and restarts of a violation."""

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.readings.store import Store
from evaluator.core.signals import Decided
from evaluator.features.pages.sources import ViolationTimes
from wire.codec import Delta

KEY, START = PolicyKey("ns", "demo"), 1000.0


class World:
    """Decisions at several times, and the times of violations."""

    def __init__(self, policy):
        self.policy = policy
        self.store = Store(stale_after=60.0, started=START)
        self.store.subscribe(["m"])
        self.times, self.before = ViolationTimes(), None

    def at(self, seconds, **values):
        """Report values of m by node, decide, and return since when nodes violate dontschedule, after the start."""
        now = START + seconds
        for node, value in values.items():
            self.store.report(node, Delta({"m": float(value)}), now)
        self.before = decide([self.policy], values, self.store, now=now, before=self.before)
        list(self.times.update(Decided(self.before, now)))
        found = {node: self.times.since(KEY, StrategyName.DONTSCHEDULE, node) for node in values}
        return {node: at - START for node, at in found.items() if at is not None}


@pytest.fixture
def decided(parsed, rule):
    return World(parsed("demo", dontschedule=[rule("m Equals 1")]))


def test_a_violation_counts_from_the_decision_that_found_it(decided):
    assert decided.at(0, a=1, b=0) == {"a": 0}
    assert decided.at(5, a=1, b=1) == {"a": 0, "b": 5}
    assert decided.at(9, a=0, b=1) == {"b": 5}
    assert decided.at(12, a=1, b=1) == {"a": 12, "b": 5}


def test_times_stay_with_their_nodes(decided):
    assert decided.at(0, b=1, c=0) == {"b": 0}
    assert decided.at(3, a=1, b=1, d=1) == {"a": 3, "b": 0, "d": 3}
    assert decided.at(4, d=1) == {"d": 3}


def test_another_policy_of_the_same_name_starts_anew(decided, parsed, rule):
    decided.at(0, a=1)
    tas = parsed("demo", dontschedule=[rule("m Equals 1")])
    object.__setattr__(tas, "uid", "another")
    decided.policy = tas
    assert decided.at(7, a=1) == {"a": 7}


def test_nothing_is_known_of_other_nodes_and_policies(decided):
    decided.at(0, a=1)
    assert decided.times.since(KEY, StrategyName.DONTSCHEDULE, "nowhere") is None
    assert decided.times.since(KEY, StrategyName.LABELING, "a") is None
    assert decided.times.since(PolicyKey("ns", "x"), StrategyName.DONTSCHEDULE, "a") is None
