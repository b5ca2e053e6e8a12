"""A policy that refuses every node from its first evaluation on has a problem, and only then."""

import dataclasses

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.problems import refusal_problem
from evaluator.core.readings.store import Store
from evaluator.features.status.plan import statuses
from wire.codec import Delta

KEY = PolicyKey("ns", "demo")
NOW = 1000.0


class Cluster:
    """Decisions over time; a restart forgets all of them."""

    def __init__(self, *, started=0.0):
        self.store = Store(stale_after=30.0, started=started)
        self.store.subscribe(["m"])
        self.decisions = None

    def decide(self, policy, nodes=("a", "b"), **values):
        for node, value in values.items():
            self.store.report(node, Delta({"m": value}), NOW)
        self.decisions = decide([policy], nodes, self.store, now=NOW, before=self.decisions)
        return self.decisions.policies[KEY]

    def status(self):
        (found,) = dict(statuses(self.decisions, ())).values()
        return found.body(lambda _condition: "")


@pytest.fixture
def demo(parsed, rule):
    return parsed(dontschedule=[rule("m GreaterThan 5")], generation=3)


def test_policy_that_refuses_every_node_at_once_has_a_problem_until_one_is_allowed(demo):
    cluster = Cluster()
    for _ in range(2):
        found = cluster.decide(demo, a=9.0, b=9.0)
        assert found.problems == found.stable_problems == (refusal_problem(demo),)
    assert cluster.decide(demo, b=1.0).problems == ()
    assert cluster.decide(demo, b=9.0).problems == (), "it is reported once"


def test_nodes_that_all_become_bad_later_are_no_problem_of_the_policy(demo):
    cluster = Cluster()
    assert cluster.decide(demo, a=1.0, b=9.0).problems == ()
    assert cluster.decide(demo, a=9.0).problems == ()


def test_awaited_first_readings_are_no_evaluation(demo):
    cluster = Cluster(started=NOW)
    assert cluster.decide(demo, a=9.0).refuses_all is None
    assert cluster.decide(demo, b=9.0).refuses_all is True


def test_no_nodes_are_no_evaluation(demo):
    assert Cluster().decide(demo, nodes=()).problems == ()


def test_edit_is_evaluated_for_the_first_time(demo):
    cluster = Cluster()
    cluster.decide(demo, a=1.0, b=9.0)
    edited = dataclasses.replace(demo, generation=4)
    assert cluster.decide(edited, a=9.0).problems == (refusal_problem(edited),)


def test_observed_policy_would_refuse(demo):
    observed = dataclasses.replace(demo, observed_by="--observe")
    (problem,) = Cluster().decide(observed, a=9.0, b=9.0).problems
    assert problem.startswith("dontschedule would refuse every node at its first evaluation")


@pytest.mark.parametrize("first", [9.0, 1.0], ids=["refused from the start", "not"])
def test_restart_reads_the_result_from_the_status(demo, first):
    cluster = Cluster()
    before = cluster.decide(demo, a=9.0, b=first)
    after = dataclasses.replace(demo, status=cluster.status())
    assert Cluster().decide(after, a=9.0, b=9.0).refuses_all is before.refuses_all


def test_status_from_before_the_first_readings_is_no_evaluation(demo):
    cluster = Cluster(started=NOW)
    cluster.decide(demo)
    after = dataclasses.replace(demo, status=cluster.status())
    assert Cluster().decide(after, a=9.0, b=9.0).refuses_all is True


def test_status_that_is_written_meanwhile_does_not_count(demo):
    """A leader writes it while this replica still awaits readings."""
    cluster = Cluster(started=NOW)
    cluster.decide(demo, a=9.0)
    known = dataclasses.replace(demo, status=cluster.status())
    assert cluster.decide(known, b=9.0).refuses_all is True


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": 5},
        {"conditions": ["x", {"type": "Valid", "observedGeneration": 3, "message": None}]},
        {"conditions": [{"type": "Valid", "observedGeneration": 2, "message": "every node at"}]},
    ],
)
def test_malformed_status_is_ignored(demo, status):
    found = Cluster().decide(dataclasses.replace(demo, status=status), a=9.0, b=9.0)
    assert found.refuses_all is True
