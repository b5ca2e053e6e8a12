"""Outcomes of pods from kubelet statuses: what counts, and when."""

import json

import pytest

from evaluator.core.model.pod_record import decode
from evaluator.features.scorers.learning import OutcomeTracker
from evaluator.features.scorers.rewards import PodOutcome

BEGIN = 1_700_000_000.0
"""Unix time of second 0."""
FAILED, DID_WELL = [PodOutcome("web", "n", 0)], [PodOutcome("web", "n", 1)]


def stamp(second):
    minutes, seconds = divmod(20 + second, 60)
    return f"2023-11-14T22:{13 + minutes:02}:{seconds:02}Z"


def pod(phase="Running", *, ready=True, restarts=0, crashed=None, node="n", uid="u", bound=0, **at):
    """A pod; `crashed` and `bound` are seconds."""
    status = {"restartCount": restarts, "ready": ready}
    if crashed is not None:
        status["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": stamp(crashed)}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(bound)}
    return decode(
        json.dumps(
            {
                "metadata": {"name": "p", "namespace": "ns", "uid": uid, "labels": {"app": "web"}}
                | at,
                "spec": {"nodeName": node},
                "status": {
                    "phase": phase,
                    "conditions": [scheduled],
                    "containerStatuses": [status],
                },
            }
        ).encode()
    )


class World:
    """One pod observed over time."""

    def __init__(self):
        self.rewarding = OutcomeTracker(steady=60.0)
        self._before = None

    def seen(self, second, after):
        """The outcomes of this state of the pod."""
        before, self._before = self._before, after
        now = float(second)
        return self.rewarding.changed(before, after, now=now, wall=BEGIN + now)

    def due(self, second):
        return self.rewarding.due(float(second))


@pytest.fixture
def world():
    made = World()
    made.seen(0, pod("Pending", node=""))
    made.seen(0, pod("Pending"))
    return made


def test_pod_that_has_run_for_the_period_succeeds_once(world):
    assert world.seen(1, pod()) == []
    assert world.due(60.9) == []
    assert world.due(61) == DID_WELL
    assert world.seen(70, pod(ready=False)) == []
    assert world.seen(71, pod()) == []
    assert world.due(1000) == []


def test_unready_pod_is_checked_again(world):
    world.seen(1, pod(ready=False))
    assert world.due(61) == []
    world.seen(62, pod())
    assert world.due(120) == []
    assert world.due(121) == DID_WELL


@pytest.mark.parametrize("phase", ["Failed", "Unknown"])
def test_failure_counts_once(world, phase):
    world.seen(1, pod())
    assert world.seen(2, pod(phase)) == FAILED
    assert world.seen(3, pod(phase, ready=False)) == []
    assert world.due(1000) == []


def test_each_crash_counts_once(world):
    world.seen(1, pod())
    assert world.seen(10, pod(crashed=9)) == FAILED
    assert world.seen(20, pod(crashed=9, restarts=1)) == []
    assert world.seen(30, pod(crashed=30, restarts=1)) == FAILED
    assert world.seen(31, pod(crashed=30, restarts=2)) == []


def test_crash_that_ends_the_pod_is_not_counted_twice(world):
    world.seen(1, pod())
    assert world.seen(10, pod(crashed=9)) == FAILED
    assert world.seen(20, pod("Failed", crashed=9)) == []
    assert world.due(1000) == []


def test_restart_without_a_reason_is_a_crash(world):
    world.seen(1, pod())
    assert world.seen(2, pod(restarts=1)) == FAILED
    assert world.seen(3, pod(restarts=1)) == []


def test_container_that_succeeds_after_a_crash_is_no_failure(world):
    world.seen(1, pod(crashed=0))
    assert world.seen(20, pod(restarts=1)) == []


def test_recovered_pod_succeeds_again(world):
    world.seen(1, pod())
    assert world.due(61) == DID_WELL
    assert world.seen(70, pod(crashed=70, restarts=1)) == FAILED
    assert world.due(129) == []
    assert world.due(130) == DID_WELL


def test_pod_on_a_recovered_node_succeeds_again(world):
    world.seen(1, pod())
    assert world.seen(10, pod("Unknown")) == FAILED
    assert world.seen(100, pod()) == []
    assert world.due(159) == []
    assert world.due(160) == DID_WELL


def test_time_counts_from_the_crash_and_not_from_its_report(world):
    """kubeRL subtracts the seconds of two minutes: 59 to 1 is no 58 seconds back."""
    world.seen(1, pod())
    assert world.seen(101, pod(crashed=59, restarts=1)) == FAILED
    assert world.due(118) == []
    assert world.due(119) == DID_WELL


def test_successful_job_succeeds_once(world):
    world.seen(1, pod())
    assert world.seen(2, pod("Succeeded")) == DID_WELL
    assert world.due(1000) == []


def test_completion_after_a_success_does_not_count_again(world):
    world.seen(1, pod())
    assert world.due(61) == DID_WELL
    assert world.seen(70, pod("Succeeded")) == []


def test_job_too_short_to_be_seen_running_counts(world):
    assert world.seen(1, pod("Succeeded")) == DID_WELL


def test_deleted_pod_is_no_failure(world):
    world.seen(1, pod())
    going = {"deletionTimestamp": stamp(5)}
    assert world.seen(5, pod(**going)) == []
    assert world.seen(6, pod("Failed", crashed=6, **going)) == []
    assert world.seen(7, None) == []
    assert world.due(1000) == []


def test_pod_running_before_the_first_list_is_not_counted():
    world = World()
    assert world.seen(100, pod(bound=0)) == []
    assert world.due(1000) == []


@pytest.mark.parametrize("phase", ["Failed", "Succeeded", "Unknown"])
def test_pod_finished_before_the_first_list_is_not_counted(phase):
    assert World().seen(100, pod(phase)) == []


def test_pod_just_started_before_the_first_list_succeeds_on_time():
    world = World()
    world.seen(30, pod(bound=10))
    assert world.due(69) == []
    assert world.due(70) == DID_WELL


def test_crash_before_the_first_list_delays_the_success():
    world = World()
    world.seen(100, pod(bound=0, crashed=90, restarts=3))
    assert world.due(149) == []
    assert world.due(150) == DID_WELL


def test_recreated_pod_starts_over(world):
    world.seen(1, pod(restarts=1))
    assert world.seen(10, pod(uid="v", restarts=2, crashed=5, bound=10)) == []
    assert world.due(69) == []
    assert world.due(70) == DID_WELL
