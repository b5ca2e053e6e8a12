"""Messages about waiting gangs are true of the waiting pods and name the cause."""

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.features.gangs.core import messages
from evaluator.features.gangs.core.packing import Shortage


@pytest.fixture
def a_gang(a_pod, gangs_of):
    def make(waiting, running=0, **more):
        pods = [a_pod(f"w-{n}", "train", 2, **more) for n in range(waiting)]
        pods += [a_pod(f"r-{n}", "train", 2, node="x") for n in range(running)]
        return gangs_of(pods)[0]

    return make


def test_message_about_a_waiting_gang_names_all_pods(a_gang):
    told = messages.waits_for_capacity(a_gang(3), Shortage(1, 3, 5, "cpu"))
    assert told == "complete, waiting for capacity for its 3 pods; short of cpu"


def test_message_about_a_partly_running_gang_counts_waiting_pods(a_gang):
    told = messages.too_large(a_gang(1, running=2), Shortage(0, 1, 5, "cpu"))
    assert "no capacity for 1 of its 3 pods" in told


def test_message_about_a_single_pod_mentions_no_others(a_pod, gangs_of):
    [gang] = gangs_of([a_pod("lonely")])
    told = messages.waits_for_capacity(gang, Shortage(0, 1, 5, "memory"))
    assert told == "complete, waiting for capacity for this pod; short of memory"


def test_message_names_the_policy_that_rejects_all_nodes(a_gang):
    gang = a_gang(2, policy=PolicyKey("default", "cool"))
    told = messages.waits_for_capacity(gang, Shortage(0, 2, 0, "nodes"))
    assert told == (
        "complete, but policy default/cool rejects every node that its 2 pods could run on"
    )


def test_message_about_a_gang_without_gates_does_not_mention_lifting():
    assert "lifted" not in messages.RELEASED
