"""A policy whose decision raises keeps its last one, with the problem; the others are decided."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter

from evaluator.core.isolation import Isolation
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy import decide as deciding
from evaluator.core.policy.decide import KEPT, UNDECIDED, Decisions, decide
from evaluator.core.policy.parse import parse
from evaluator.core.readings.store import Store
from tests.clock import Clock
from tests.evaluator.conftest import make_rule, make_tas
from wire.codec import Delta

ODD, EVEN = PolicyKey("ns", "odd"), PolicyKey("ns", "even")
ILL = {"telemetry.aware.scheduling.odd/odd": "ill"}


class OddError(Exception):
    """What nobody expected."""


class World:
    """Two policies on some nodes, of which one may raise."""

    def __init__(self, monkeypatch):
        self.clock = Clock()
        self.clock.now = 1000.0
        self.errors = Counter("errors", "", ["part"], registry=CollectorRegistry())
        self.part = Isolation(self.errors, clock=self.clock).part("decisions")
        self.store = Store(stale_after=1e9, started=-1e9)
        self.store.subscribe({"health"})
        self.raises = False
        self.tried = 0
        self.latest = Decisions()
        self.policies = [self.policy("odd"), self.policy("even")]
        decided = deciding._decision
        monkeypatch.setattr(deciding, "_decision", lambda policy, *rest, **more: self.odd(decided, policy, *rest, **more))  # fmt: skip

    @staticmethod
    def policy(name, **annotations):
        made = make_tas(
            name,
            dontschedule=[make_rule("health Equals 2")],
            labeling=[make_rule("health Equals 2", f"{name}=ill")],
        )
        made["metadata"] |= {"namespace": "ns", "annotations": annotations}
        return parse(made)

    def odd(self, decided, policy, *rest, **more):
        if policy.key == ODD and self.raises:
            self.tried += 1
            raise OddError(policy.key)
        return (yield from decided(policy, *rest, **more))

    def decide(self, labels_of=lambda _node: {}, **readings):
        for node, value in readings.items():
            self.store.report(node, Delta({"health": value}), self.clock.now)
        self.nodes = [*readings]
        self.latest = decide(
            self.policies,
            self.nodes,
            self.store,
            now=self.clock.now,
            before=self.latest,
            labels_of=labels_of,
            guard=self.part,
        )
        return self.latest.policies


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_policy_whose_decision_raises_keeps_its_last_one_and_says_so(world):
    world.decide(a=2.0, b=0.0)
    world.raises = True
    found = world.decide(a=0.0, b=2.0)
    assert [*found[ODD].dontschedule] == ["a"]
    assert [*found[EVEN].dontschedule] == ["b"]
    assert {node: {**labels} for node, labels in found[ODD].labels.items()} == {"a": ILL}
    assert KEPT in found[ODD].problems
    assert KEPT in found[ODD].stable_problems
    assert world.errors.labels("decisions")._value.get() == 1


def test_last_decision_is_kept_over_other_nodes(world):
    world.decide(a=2.0, b=0.0, c=2.0)
    world.raises = True
    found = world.decide(b=2.0, c=2.0, d=2.0)
    assert [*found[ODD].dontschedule] == ["c"]
    assert world.latest.table.nodes.names_at(found[ODD].states["dontschedule"].found.violated) == [
        "c"
    ]
    assert {*found[ODD].labels} == {"c"}
    assert {*found[EVEN].dontschedule} == {"b", "c", "d"}


def test_kept_decision_is_the_same_object_while_nothing_changes(world):
    world.decide(a=2.0)
    world.raises = True
    assert world.decide(a=0.0)[ODD] is world.decide(a=1.0)[ODD]


def test_policy_is_decided_again_after_a_while_and_at_once_when_it_is_edited(world):
    world.decide(a=2.0)
    world.raises = True
    world.decide(a=0.0)
    again = world.latest.valid_until
    assert world.clock.now < again < world.clock.now + 10.0
    world.decide(a=1.0)
    assert world.tried == 1
    world.policies[0] = world.policy("odd", note="edited")
    world.decide(a=1.0)
    assert world.tried == 2
    world.raises = False
    world.clock.now += 400.0
    found = world.decide(a=0.0)
    assert not found[ODD].problems
    assert not found[ODD].dontschedule


def test_policy_without_a_last_decision_is_undecided_and_keeps_its_labels(world):
    world.raises = True
    found = world.decide(labels_of=lambda node: ILL if node == "a" else {}, a=0.0, b=0.0)
    assert found[ODD].undecided
    assert found[ODD].unreported == {"a", "b"}
    assert found[ODD].stable_problems == (UNDECIDED,)
    assert {node: dict(labels) for node, labels in world.latest.labels.items()} == {"a": ILL}
    assert not found[EVEN].undecided


def test_edit_to_observe_holds_for_a_policy_that_raises(world):
    world.decide(a=2.0)
    world.raises = True
    world.policies[0] = world.policy("odd", **{"plimsoll.io/enforcement": "observe"})
    assert world.decide(a=2.0)[ODD].policy.observed
    assert ODD not in world.latest.enforced


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.0, 2.0]), min_size=1),
            st.booleans(),
            st.sampled_from([0.0, 5.0, 400.0]),
        ),
        max_size=8,
    )
)
def test_other_policies_are_decided_as_without_the_one_that_raises(rounds):
    with pytest.MonkeyPatch.context() as monkeypatch:
        world, alone = World(monkeypatch), World(monkeypatch)
        for readings, raises, passed in rounds:
            world.raises, alone.policies = raises, [alone.policies[-1]]
            world.clock.now = alone.clock.now = world.clock.now + passed
            found, expected = world.decide(**readings), alone.decide(**readings)
            assert {**found[EVEN].dontschedule} == {**expected[EVEN].dontschedule}
            assert len(found[ODD].states.get("dontschedule", found[EVEN].states["dontschedule"]).found.violated) == len(readings)  # fmt: skip
            assert not found[ODD].dontschedule.keys() - readings.keys()
