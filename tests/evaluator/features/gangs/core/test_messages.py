"""Messages about waiting gangs are true of the waiting pods and name the cause."""

import pytest

from evaluator.core.model.events import EventSpec
from evaluator.core.model.names import PolicyKey
from evaluator.features.gangs.core import messages
from evaluator.features.gangs.core.packing import Shortage
from evaluator.features.gangs.core.types import GangState, GangVerdict

MESSAGE = "2 of 4 pods of podGroup train exist"


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


@pytest.fixture
def gang(a_pod, gangs_of):
    pods = [
        a_pod("bound", "train", 4, node="node-a"),
        a_pod("done", "train", 4, node="node-a", phase="Succeeded"),
        a_pod("held", "train", 4),
        a_pod("loose", "train", 4, gated=False, admitted=1.0),
        a_pod("never held", "train", 4, gated=False),
        a_pod("others", "train", 4, gated=False, foreign=("example.com/quota",)),
    ]
    return gangs_of(pods)[0]


def verdict(state, **more):
    return GangVerdict(state, MESSAGE, 0.0, **more)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (GangState.INCOMPLETE, {"held"}),
        (GangState.GATED_BY_OTHERS, {"held"}),
        (GangState.WAITS_FOR_TURN, {"held"}),
        (GangState.WAITS_FOR_ROOM, {"held"}),
        (GangState.TOO_LARGE, {"held"}),
        (GangState.NOT_LIFTED, {"held"}),
        (GangState.RELEASED, {"held", "loose"}),
        (GangState.TIMED_OUT, {"held", "loose"}),
        (GangState.SCHEDULED, set()),
    ],
)
def test_pods_with_an_event_depend_on_the_state(gang, state, told):
    assert {pod.name for pod in messages.concerned(gang, verdict(state))} == told


@pytest.mark.parametrize("state", GangState)
def test_state_is_the_reason_of_the_event(state):
    (notice,) = messages.notes(verdict(state))
    assert notice.reason == f"Gang{state}"
    assert notice.message == MESSAGE
    alarming = state in {GangState.TOO_LARGE, GangState.NOT_LIFTED, GangState.TIMED_OUT}
    assert notice.type == ("Warning" if alarming else "Normal")


def test_blockers_and_label_problems_are_separate_warnings():
    found = messages.notes(
        verdict(GangState.INCOMPLETE, problems=("a", "b")), ["quota", "parallelism"]
    )
    assert found == (
        EventSpec("Normal", "GangIncomplete", MESSAGE),
        EventSpec("Warning", "GangCannotComplete", "quota; parallelism"),
        EventSpec("Warning", "GangLabels", "a; b"),
    )


def test_overdue_pod_has_an_event_with_what_its_gang_lacks():
    notice = messages.overdue(verdict(GangState.INCOMPLETE))
    assert (notice.type, notice.reason) == ("Warning", "GangOverdue")
    assert notice.message.endswith(MESSAGE)
    assert "--gateMaxAge" in messages.overdue(None).message


def test_overdue_event_of_a_complete_gang_does_not_call_it_incomplete():
    assert "ready" not in messages.overdue(verdict(GangState.RELEASED)).message
