"""Events on the waiting pods of a gang, with the reason."""

import pytest

from evaluator.core.model.events import EventSpec
from evaluator.features.gangs.core import events
from evaluator.features.gangs.core.types import GangState, GangVerdict

MESSAGE = "2 of 4 pods of podGroup train exist"


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
    assert {pod.name for pod in events.concerned(gang, verdict(state))} == told


@pytest.mark.parametrize("state", GangState)
def test_state_is_the_reason_of_the_event(state):
    (notice,) = events.notes(verdict(state))
    assert notice.reason == f"Gang{state}"
    assert notice.message == MESSAGE
    alarming = state in {GangState.TOO_LARGE, GangState.NOT_LIFTED, GangState.TIMED_OUT}
    assert notice.type == ("Warning" if alarming else "Normal")


def test_blockers_and_label_problems_are_separate_warnings():
    found = events.notes(
        verdict(GangState.INCOMPLETE, problems=("a", "b")), ["quota", "parallelism"]
    )
    assert found == (
        EventSpec("Normal", "GangIncomplete", MESSAGE),
        EventSpec("Warning", "GangCannotComplete", "quota; parallelism"),
        EventSpec("Warning", "GangLabels", "a; b"),
    )


def test_overdue_pod_has_an_event_with_what_its_gang_lacks():
    notice = events.overdue(verdict(GangState.INCOMPLETE))
    assert (notice.type, notice.reason) == ("Warning", "GangOverdue")
    assert notice.message.endswith(MESSAGE)
    assert "--gateMaxAge" in events.overdue(None).message


def test_overdue_event_of_a_complete_gang_does_not_call_it_incomplete():
    assert "ready" not in events.overdue(verdict(GangState.RELEASED)).message
