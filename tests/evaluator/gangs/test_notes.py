"""What events say of gangs: on the pods that wait, why they do."""

import pytest

from evaluator.gangs import notes
from evaluator.gangs.group import Gang, GangKey
from evaluator.gangs.membership import Membership
from evaluator.gangs.verdicts import State, Verdict
from evaluator.inventory import Resident
from evaluator.notices import Notice

MESSAGE = "2 of 4 pods of podGroup train exist"


def pod(name, node="", *, phase="Pending", **about):
    return Resident(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        kind="train",
        node=node,
        phase=phase,
        requests=(0, 0, 0, 0),
        peak=(0, 0, 0, 0),
        bound=None,
        created=0.0,
        leaving=False,
        ready=False,
        restarts=0,
        crashing=False,
        crashed=None,
        membership=Membership("train", 4, **about),
    )


PODS = (
    pod("bound", "node-a"),
    pod("done", "node-a", phase="Succeeded", gated=True),
    pod("held", gated=True),
    pod("loose"),
    pod("others", foreign=("example.com/quota",)),
)
GANG = Gang(GangKey("ns", "train"), PODS)


def verdict(state, **more):
    return Verdict(state, MESSAGE, 0.0, **more)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (State.INCOMPLETE, {"held"}),
        (State.GATED_BY_OTHERS, {"held"}),
        (State.WAITS_FOR_TURN, {"held"}),
        (State.WAITS_FOR_ROOM, {"held"}),
        (State.TOO_LARGE, {"held"}),
        (State.RELEASED, {"held", "loose"}),
        (State.TIMED_OUT, {"held", "loose"}),
        (State.SCHEDULED, set()),
    ],
)
def test_who_is_told(state, told):
    assert {pod.name for pod in notes.concerned(GANG, verdict(state))} == told


@pytest.mark.parametrize("state", State)
def test_how_it_stands_is_the_reason(state):
    (notice,) = notes.notes(verdict(state))
    assert notice.reason == f"Gang{state}"
    assert notice.message == MESSAGE
    alarming = state in {State.TOO_LARGE, State.TIMED_OUT}
    assert notice.type == ("Warning" if alarming else "Normal")


def test_why_it_can_never_be_complete_and_what_is_wrong_are_warnings_of_their_own():
    found = notes.notes(verdict(State.INCOMPLETE, problems=("a", "b")), ["quota", "parallelism"])
    assert found == (
        Notice("Normal", "GangIncomplete", MESSAGE),
        Notice("Warning", "GangCannotComplete", "quota; parallelism"),
        Notice("Warning", "GangLabels", "a; b"),
    )


def test_a_pod_that_goes_for_its_age_is_told_what_its_gang_lacks():
    notice = notes.overdue(verdict(State.INCOMPLETE))
    assert (notice.type, notice.reason) == ("Warning", "GangOverdue")
    assert notice.message.endswith(MESSAGE)
    assert "--gateMaxAge" in notes.overdue(None).message


def test_a_message_is_as_long_as_kubernetes_takes_it():
    (_, notice) = notes.notes(verdict(State.INCOMPLETE), ["x" * 5000])
    assert len(notice.message) == 1024
