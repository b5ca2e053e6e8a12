"""Names looked up in the background: when, and what is sent."""

import asyncio

import pytest

from agent.stream.names import MatchingNames
from plimsoll.wakeup import WakeUp


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
