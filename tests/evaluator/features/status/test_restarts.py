"""A restarted replica reads from the status whether a policy refused every node at its first evaluation."""

import dataclasses

import pytest

from evaluator.features.status.plan import statuses
from tests.evaluator.core.policy.test_problems import NOW, Cluster


@pytest.fixture
def demo(parsed, rule):
    return parsed(dontschedule=[rule("m GreaterThan 5")], generation=3)


def status(cluster):
    """The status that is written after the cluster's last decision."""
    (found,) = dict(statuses(cluster.decisions, ())).values()
    return found.body(lambda _condition: "")


@pytest.mark.parametrize("first", [9.0, 1.0], ids=["refused from the start", "not"])
def test_restart_reads_the_result_from_the_status(demo, first):
    cluster = Cluster()
    before = cluster.decide(demo, a=9.0, b=first)
    after = dataclasses.replace(demo, status=status(cluster))
    assert Cluster().decide(after, a=9.0, b=9.0).refuses_all is before.refuses_all


def test_status_from_before_the_first_readings_is_no_evaluation(demo):
    cluster = Cluster(started=NOW)
    cluster.decide(demo)
    after = dataclasses.replace(demo, status=status(cluster))
    assert Cluster().decide(after, a=9.0, b=9.0).refuses_all is True


def test_status_that_is_written_meanwhile_does_not_count(demo):
    """A leader writes it while this replica still awaits readings."""
    cluster = Cluster(started=NOW)
    cluster.decide(demo, a=9.0)
    known = dataclasses.replace(demo, status=status(cluster))
    assert cluster.decide(known, b=9.0).refuses_all is True
