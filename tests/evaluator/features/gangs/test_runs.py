"""Successive gangs of one name, as created by a CronJob: pods of the last run do not count for the next."""

import pytest

from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.membership import Owner
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import GangHistory, GangReason, GangState, GangTimings

NOW = 200.0
TRAIN = GangKey("default", "train")


@pytest.fixture
def run(a_pod):
    """Pods of one Job of several that share the name train."""

    def make(number, count, **more):
        owner = Owner("Job", f"train-{number}", f"job-{number}")
        return [a_pod(f"{number}-{n}", "train", 4, owner=owner, **more) for n in range(count)]

    return make


@pytest.fixture
def decided(gangs_of, space_of):
    def do(pods, memory=None):
        memory = memory or GangHistory(fresh=False)
        gangs = gangs_of(pods)
        return decide(gangs, space_of(x=8), memory, GangTimings(), now=NOW, random=lambda: 0.0)

    return do


def test_succeeded_pods_of_the_last_run_do_not_complete_the_next(run, decided):
    done = run(1, 4, phase="Succeeded", node="x", admitted=50.0)
    decisions = decided(done + run(2, 1))
    assert not decisions.releases
    said = decisions.verdicts[TRAIN]
    assert (said.state, said.message) == (
        GangState.INCOMPLETE,
        "1 of 4 pods of podGroup train exist",
    )


def test_next_run_is_released_when_complete_by_itself(run, decided):
    done = run(1, 4, phase="Succeeded", node="x", admitted=50.0)
    [release] = decided(done + run(2, 4)).releases
    assert release.reason is GangReason.ADMITTED
    assert {pod.name for pod in release.pods} == {"2-0", "2-1", "2-2", "2-3"}


def test_running_gang_waits_since_its_new_pod_was_created(run, decided, a_pod, gangs_of):
    """Otherwise a new pod of an old gang would be reported as waiting for weeks and be first in the queue."""
    running = run(1, 4, node="x", admitted=50.0, created=1.0)
    new = run(2, 1, created=NOW - 5, cpu=100)
    assert decided(running + new).verdicts[TRAIN].since == NOW - 5

    [gang, other] = sorted(gangs_of([*running, *new, a_pod("older")]), key=lambda one: one.rank)
    assert (gang.key.name, other.key.name) == ("older", "train")


def test_finished_jobs_are_forgotten(run, decided):
    memory = GangHistory(fresh=False)
    for number in range(300):
        found = decided(run(number, 4), memory)
        [release] = found.releases
        assert release.reason is GangReason.ADMITTED
        memory = found.memory.released(release, now=NOW)
        memory = decided(run(number, 4, node="x", admitted=NOW), memory).memory
    assert f"job-{number}" in memory.admitted[TRAIN]
    assert len(memory.admitted[TRAIN]) < 200
