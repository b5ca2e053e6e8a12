"""What nodes keep while policies are frozen."""

from types import SimpleNamespace

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.stops import NO_STOPS, Stop, Stops
from evaluator.core.writes.kept import KeptOnNodes

A, B = PolicyKey("ns", "a"), PolicyKey("ns", "b")
FROZEN = Stop(frozen=True)
OWN = {"a": "old", "b": "old", "shared": "old", "left": "old"}


def decision(*keys):
    return SimpleNamespace(policy=keys)


@pytest.fixture
def kept():
    """What nodes keep with these stops; `a` and `b` have a label of their own and one that they share."""

    def make(stops):
        decisions = SimpleNamespace(
            policies={A: decision("a", "shared"), B: decision("b", "shared")}
        )
        return KeptOnNodes(lambda: stops, SimpleNamespace(latest=decisions), lambda keys: keys)

    return make


def test_without_a_stop_a_node_gets_what_is_wanted(kept):
    assert kept(NO_STOPS).desired({"a": "new"}, OWN) == {"a": "new"}
    assert kept(Stops(Stop(observed_by="x"))).desired({}, OWN) == {}


def test_everything_stays_while_all_are_frozen(kept):
    frozen = kept(Stops(FROZEN))
    for wanted in ({}, {"a": "new", "c": "new"}, OWN):
        assert frozen.desired(wanted, OWN) is None
        assert frozen.desired(wanted, {}) is None


def test_only_what_other_policies_alone_set_changes(kept):
    frozen = kept(Stops(named={A: FROZEN}))
    wanted = {"a": "new", "b": "new", "shared": "new"}
    assert frozen.desired(wanted, OWN) == {**OWN, "b": "new"}
    assert frozen.desired({}, OWN) == {"a": "old", "shared": "old", "left": "old"}
    assert frozen.desired(wanted, {}) == {"b": "new"}


def test_released_policy_changes_while_the_others_are_frozen(kept):
    frozen = kept(Stops(FROZEN, {B: Stop(observed_by="x")}))
    assert frozen.desired({"a": "new"}, OWN) == {"a": "old", "shared": "old", "left": "old"}
