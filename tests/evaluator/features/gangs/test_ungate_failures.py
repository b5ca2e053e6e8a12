"""A gang that cannot be ungated backs off, reports why, and delays no other."""

import pytest

from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import (
    GangHistory,
    GangReason,
    GangRelease,
    GangState,
    GangTimings,
)

FIRST, SECOND = GangKey("default", "first"), GangKey("default", "second")
WHY = "PATCH /api/v1/namespaces/default/pods/a: 403 denied"


@pytest.fixture
def decisions(a_pod, gangs_of, space_of):
    """The decision about two gangs of two pods that both fit; the first one is first."""
    pods = [a_pod(f"{name}-{n}", name, 2) for name in ("first", "second") for n in range(2)]
    pods += [a_pod(f"first-{n}", "first", 2, priority=9) for n in range(2)]
    there = list({pod.name: pod for pod in pods}.values())

    def decided(memory, now, pods=there, **timings):
        capacity = space_of(pods, n=64)
        return decide(
            gangs_of(pods), capacity, memory, GangTimings(**timings), now=now, random=lambda: 0.0
        )

    return decided


def ungate_failed(memory=None, now=1000.0):
    return (memory or GangHistory()).ungate_failed(FIRST, WHY, now=now, random=lambda: 0.0)


def test_next_gang_is_released_and_the_failure_is_explained(decisions):
    found = decisions(ungate_failed(), 1000.0)
    assert [release.gang for release in found.releases] == [SECOND]
    assert found.verdicts[FIRST].state is GangState.NOT_LIFTED
    assert WHY in found.verdicts[FIRST].message


def test_failed_gang_is_first_again_after_a_second(decisions):
    found = decisions(ungate_failed(), 1000.0)
    assert found.again == 1001.0
    assert [release.gang for release in decisions(found.memory, 1001.0).releases] == [FIRST]


def test_failed_gang_backs_off_exponentially_until_ungated(decisions):
    memory = ungate_failed(ungate_failed())
    assert decisions(memory, 1001.5).verdicts[FIRST].state is GangState.NOT_LIFTED
    for _ in range(10):
        memory = ungate_failed(memory)
    assert memory.ungate_failures[FIRST].until == 1030.0
    (release,) = decisions(memory, 1030.0).releases
    assert release.gang == FIRST
    assert decisions(memory.released(release, now=1030.0), 1030.0).memory.ungate_failures == {}


def test_rejected_replacement_delays_no_other(decisions, a_pod):
    placed = a_pod("first-0", "first", 2, node="n", admitted=900.0)
    pods = [
        placed,
        *(a_pod(name, name.split("-")[0], 2) for name in ("first-1", "second-0", "second-1")),
    ]
    (replacement,) = decisions(GangHistory(), 1000.0, pods).releases
    assert (replacement.gang, replacement.reason) == (FIRST, GangReason.REPLACEMENT)
    found = decisions(ungate_failed(), 1000.0, pods)
    assert [(one.gang, one.reason) for one in found.releases] == [(SECOND, GangReason.ADMITTED)]


def test_overdue_pods_are_not_retried_in_every_decision(decisions):
    due = GangRelease(FIRST, GangReason.OVERDUE, ())
    found = decisions(ungate_failed(now=5000.0), 5000.0, gate_max_age=10.0)
    assert [one.gang for one in found.releases if one.reason is due.reason] == [SECOND]


def test_deleted_gang_is_forgotten(decisions, a_pod):
    assert decisions(ungate_failed(), 1000.0, [a_pod("x")]).memory.ungate_failures == {}
