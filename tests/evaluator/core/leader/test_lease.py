"""Leadership from an observed lease: never two leaders, whatever the clocks, and never none for long."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.leader import lease
from evaluator.core.leader.lease import Acquire, LeaseTimings, ObservedLease, Renew, StepDown, Wait
from tests.examples import examples

TERMS = LeaseTimings(duration=12.0, renew_deadline=8.0, retry=2.0)
AT = "2026-01-01T00:00:00.000000Z"


def held_by(holder, *, duration=12, at=AT, transitions=0):
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "acquireTime": AT,
        "renewTime": at,
        "leaseTransitions": transitions,
    }
    return {"metadata": {"name": "l", "resourceVersion": "7"}, "spec": spec}


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        pytest.param(ObservedLease(), Acquire(), id="no lease"),
        pytest.param(ObservedLease({"metadata": {}}, 100), Acquire(), id="a lease without a spec"),
        pytest.param(ObservedLease(held_by(""), 100), Acquire(), id="released"),
        pytest.param(ObservedLease(held_by(None), 100), Acquire(), id="without a holder"),
        pytest.param(
            ObservedLease(held_by("me"), 100),
            Acquire(),
            id="ours, by a write without a response",
        ),
        pytest.param(ObservedLease(held_by("other"), 100), Wait(12.0), id="just renewed"),
        pytest.param(ObservedLease(held_by("other"), 89), Wait(1.0), id="renewed a while ago"),
        pytest.param(ObservedLease(held_by("other"), 88), Acquire(), id="expired just now"),
        pytest.param(
            ObservedLease(held_by("other", duration=60), 88),
            Wait(48.0),
            id="longer duration in the spec",
        ),
        pytest.param(
            ObservedLease(held_by("other", duration=5), 94),
            Acquire(),
            id="shorter duration in the spec",
        ),
        pytest.param(
            ObservedLease(held_by("other", duration=None), 90),
            Wait(2.0),
            id="no duration in the spec",
        ),
        pytest.param(ObservedLease(held_by("me"), 98, renewed=98), Renew(), id="ours"),
        pytest.param(
            ObservedLease(held_by("me"), 92.5, renewed=92.5), Renew(), id="ours, close to expiry"
        ),
        pytest.param(
            ObservedLease(held_by("me"), 92, renewed=92),
            StepDown("not renewed for 8 s"),
            id="ours, expired",
        ),
        pytest.param(
            ObservedLease(held_by("other"), 99, renewed=98),
            StepDown("other holds the lease"),
            id="held by another",
        ),
        pytest.param(ObservedLease(None, 99, renewed=98), Acquire(), id="deleted"),
        pytest.param(
            ObservedLease(held_by(""), 99, renewed=98), Acquire(), id="emptied by an operator"
        ),
    ],
)
def test_step_depends_on_holder_and_expiry(seen, step):
    assert lease.decide(seen, "me", TERMS, 100.0) == step


def test_expiry_counts_from_the_observed_change_not_from_the_written_time():
    for its_clock in ("1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"):
        seen = ObservedLease().read(held_by("other", at=its_clock), 50.0)
        assert lease.decide(seen, "me", TERMS, 61.9) == Wait(pytest.approx(0.1))
        assert lease.decide(seen, "me", TERMS, 62.0) == Acquire()


def test_unchanged_record_or_metadata_is_no_renewal():
    seen = ObservedLease().read(held_by("other"), 50.0)
    annotated = {**held_by("other"), "metadata": {"name": "l", "resourceVersion": "8"}}
    seen = seen.read(held_by("other"), 55.0).read(annotated, 60.0)
    assert seen.changed == 50.0
    assert seen.lease == annotated, "writes use the last version"
    assert seen.read(held_by("other", at="later"), 61.0).changed == 61.0


def test_acquire_time_and_transitions_are_written():
    first = lease.held(ObservedLease(), "me", TERMS, at="T1")
    assert first == {
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 12,
            "acquireTime": "T1",
            "renewTime": "T1",
            "leaseTransitions": 0,
        }
    }
    renewed = lease.held(ObservedLease(first), "me", TERMS, at="T2")
    assert renewed["spec"] == {**first["spec"], "renewTime": "T2"}
    taken = lease.held(ObservedLease(held_by("other", transitions=4)), "me", TERMS, at="T3")
    assert (taken["spec"]["acquireTime"], taken["spec"]["leaseTransitions"]) == ("T3", 5)
    assert taken["metadata"]["resourceVersion"] == "7", "of two simultaneous writes one is rejected"


def test_lease_duration_is_rounded_up_to_whole_seconds():
    timings = LeaseTimings(duration=1.5, renew_deadline=1.0, retry=0.3)
    assert lease.held(ObservedLease(), "me", timings, at=AT)["spec"]["leaseDurationSeconds"] == 2


def test_released_lease_can_be_acquired_at_once():
    gone = lease.released(held_by("me"), at="T2")
    assert lease.decide(ObservedLease().read(gone, 100.0), "other", TERMS, 100.0) == Acquire()
    assert gone["spec"]["leaseDurationSeconds"] == 1, "the API server accepts no 0"
    assert gone["spec"]["acquireTime"] == AT


@dataclass
class Replica:
    """One process: its own clock, its observations, and its belief until when it leads."""

    name: str
    skew: float
    seen: ObservedLease = field(default_factory=ObservedLease)
    until: float = -1.0
    next_look: float = 0.0
    cut_off: bool = False
    dead: bool = False
    robbed: bool = False
    """The response to its next write is lost."""


class World:
    """An API server with one lease, and replicas that check it each second."""

    def __init__(self, skews):
        self.replicas = [Replica(f"r{number}", skew) for number, skew in enumerate(skews)]
        self.lease = None
        self.writes = 0

    def look(self, one, second):
        now = second + one.skew
        one.next_look = second + TERMS.retry
        if not one.cut_off:
            one.seen = one.seen.read(self.lease, now)
        match lease.decide(one.seen, one.name, TERMS, now):
            case Acquire() | Renew() if not one.cut_off:
                self._write(one, second, now)
            case StepDown():
                one.seen, one.until = one.seen.stepped_down(), -1.0
            case Wait(seconds):
                one.next_look = second + min(TERMS.retry, seconds)

    def _write(self, one, second, now):
        self.writes += 1
        self.lease = lease.held(one.seen, one.name, TERMS, at=str(self.writes))
        if one.robbed:
            one.robbed = False
        else:
            one.seen = one.seen.wrote(self.lease, now)
            one.until = second + TERMS.renew_deadline

    def writing(self, second):
        return [one.name for one in self.replicas if not one.dead and second < one.until]

    @property
    def able(self):
        return [one for one in self.replicas if not one.dead and not one.cut_off]


@settings(max_examples=examples(20))
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=4),
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["cut_off", "dead", "robbed"]),
            st.booleans(),
        ),
        max_size=14,
    ),
    st.randoms(use_true_random=False),
)
def test_never_two_leaders_and_soon_one(skews, troubles, rng):
    """Replicas with clocks days apart, disconnected and reconnected, killed and restarted, or without a response."""
    world, idle = World(skews), 0
    for second in range(150):
        if second % 10 == 9 and troubles:
            victim, trouble, begins = troubles.pop()
            setattr(world.replicas[victim % len(skews)], trouble, begins)
        for one in rng.sample(world.replicas, len(skews)):
            if not one.dead and second >= one.next_look:
                world.look(one, second)
        writing = world.writing(second)
        assert len(writing) <= 1, f"two write at {second}: {writing}"
        idle = 0 if writing or not world.able else idle + 1
        assert idle <= TERMS.duration + 2 * TERMS.retry, f"nobody writes since {idle} s"
