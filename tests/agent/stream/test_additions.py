"""Look-ups of names in the background, and when failing rules and problems are sent."""

import asyncio

import pytest

from agent.stream.additions import ChangedFailingRules, ChangedProblems, MatchingNames
from collectors.interface.sample import NodeEvent, PermanentProblem
from plimsoll.wakeup import WakeUp
from wire.failing_rules import FailingRule


class LookUp:
    """A look-up with a result that can change; counts its calls."""

    def __init__(self):
        self.names = ["a1"]
        self.asked = []

    def __call__(self, patterns):
        self.asked.append(tuple(patterns))
        return self.names


@pytest.fixture
async def matching():
    look_up, due = LookUp(), WakeUp()
    found = MatchingNames(look_up, due)

    async def find(patterns, now):
        due.clear()
        before = len(look_up.asked)
        found.find(patterns, now)
        await asyncio.sleep(0)
        if len(look_up.asked) > before or found._lookup.running:
            await due.wait(None)
        return found.take()

    return look_up, find


async def test_matching_names_are_sent_once(matching):
    look_up, find = matching
    assert await find(["a*"], 0.0) == ["a1"]
    assert await find(["a*"], 5.0) == ()
    assert look_up.asked == [("a*",)]


async def test_changed_names_are_sent_again_after_a_minute(matching):
    look_up, find = matching
    await find(["a*"], 0.0)
    assert await find(["a*"], 60.0) == ()
    look_up.names = ["a1", "a2"]
    assert await find(["a*"], 119.0) == ()
    assert await find(["a*"], 120.0) == ["a1", "a2"]


async def test_other_patterns_are_looked_up_at_once(matching):
    look_up, find = matching
    await find(["a*"], 0.0)
    assert await find(["b*"], 1.0) == ["a1"]
    assert await find([], 2.0) == ()
    assert look_up.asked == [("a*",), ("b*",)]


ONE = FailingRule("", "g", "a", "evaluation", "text")
OTHER = ONE._replace(rule="b")


@pytest.fixture
def failing():
    rules = {}
    return rules, ChangedFailingRules(lambda: dict(rules))


def test_nothing_is_sent_while_no_rule_fails(failing):
    _, changed = failing
    assert changed.take(0.0, full=True) is None
    assert changed.take(5.0, full=False) is None


def test_failing_rules_are_sent_when_they_change_and_with_full_reports(failing):
    rules, changed = failing
    rules[ONE] = 2.0
    assert changed.take(0.0, full=True) == {ONE: 2.0}
    rules[ONE] = 7.0  # its age alone is no change
    assert changed.take(5.0, full=False) is None
    assert changed.take(10.0, full=True) == {ONE: 7.0}
    rules[OTHER] = 0.0
    assert changed.take(15.0, full=False) == {ONE: 7.0, OTHER: 0.0}
    rules.clear()
    assert changed.take(20.0, full=False) == {}
    assert changed.take(25.0, full=False) is None


def test_flapping_rule_is_sent_at_a_limited_rate_and_its_last_state_in_the_end(failing):
    rules, changed = failing
    changed.take(0.0, full=True)
    sent = 0
    for second in range(300):
        rules.pop(ONE, None) if second % 2 else rules.setdefault(ONE, 0.0)
        sent += changed.take(float(second), full=False) is not None
    assert 3 <= sent <= 13
    rules[ONE] = 0.0
    rules[OTHER] = 0.0
    assert changed.take(400.0, full=False) == {ONE: 0.0, OTHER: 0.0}


HEALTHY = PermanentProblem("KernelDeadlock", False, "NoDeadlock", "fine", 0.0)
HUNG = NodeEvent("kernel", "TaskHung", "task a:1 hangs", 1000.0, 1)


@pytest.fixture
def problems():
    conditions, events = [], []
    return (
        conditions,
        events,
        ChangedProblems(lambda: (conditions[:], events[:]), wall=lambda: 1100.0),
    )


def test_conditions_are_sent_when_they_change_and_with_full_reports(problems):
    conditions, _, changed = problems
    assert changed.take(0.0, full=True) is None
    conditions.append(HEALTHY)
    assert [c.active for c in changed.take(1.0, full=False).conditions] == [False]
    assert changed.take(2.0, full=False) is None
    conditions[0] = HEALTHY._replace(active=True, reason="DockerHung")
    assert [c.reason for c in changed.take(3.0, full=False).conditions] == ["DockerHung"]
    assert changed.take(4.0, full=True).conditions[0].active


def test_events_are_sent_once_with_their_number_and_not_if_they_are_old(problems):
    _, events, changed = problems
    events[:] = [HUNG, HUNG._replace(reason="Old", at=700.0)]
    assert changed.take(0.0, full=True) is None
    (sent,) = changed.take(1.0, full=False).events
    assert (sent.reason, sent.times) == ("TaskHung", 1)
    assert changed.take(2.0, full=False) is None
    events[0] = HUNG._replace(times=4)
    (sent,) = changed.take(3.0, full=False).events
    assert sent.times == 3


def test_events_of_a_flood_are_aggregated(problems):
    _, events, changed = problems
    changed.take(0.0, full=True)
    sent = []
    for second in range(100):
        events[:] = [HUNG._replace(times=1000 * (second + 1))]
        if (found := changed.take(float(second), full=False)) is not None:
            sent += found.events
    assert len(sent) <= 25
    assert sum(event.times for event in sent) > 90_000
