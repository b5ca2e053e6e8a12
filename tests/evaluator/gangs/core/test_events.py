"""What events say of gangs: on the pods that wait, why they do."""

import pytest

from evaluator.gangs.core import events
from evaluator.gangs.core.types import GangState, GangVerdict
from evaluator.plans.policy_events import EventSpec

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
def test_who_is_told(gang, state, told):
    assert {pod.name for pod in events.concerned(gang, verdict(state))} == told


@pytest.mark.parametrize("state", GangState)
def test_how_it_stands_is_the_reason(state):
    (notice,) = events.notes(verdict(state))
    assert notice.reason == f"Gang{state}"
    assert notice.message == MESSAGE
    alarming = state in {GangState.TOO_LARGE, GangState.NOT_LIFTED, GangState.TIMED_OUT}
    assert notice.type == ("Warning" if alarming else "Normal")


def test_why_it_can_never_be_complete_and_what_is_wrong_are_warnings_of_their_own():
    found = events.notes(
        verdict(GangState.INCOMPLETE, problems=("a", "b")), ["quota", "parallelism"]
    )
    assert found == (
        EventSpec("Normal", "GangIncomplete", MESSAGE),
        EventSpec("Warning", "GangCannotComplete", "quota; parallelism"),
        EventSpec("Warning", "GangLabels", "a; b"),
    )


def test_a_pod_that_goes_for_its_age_is_told_what_its_gang_lacks():
    notice = events.overdue(verdict(GangState.INCOMPLETE))
    assert (notice.type, notice.reason) == ("Warning", "GangOverdue")
    assert notice.message.endswith(MESSAGE)
    assert "--gateMaxAge" in events.overdue(None).message


def test_a_pod_that_goes_for_its_age_with_all_its_gang_is_not_told_that_the_gang_was_not_ready():
    assert "ready" not in events.overdue(verdict(GangState.RELEASED)).message
