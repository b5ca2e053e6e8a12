"""Frames between the evaluator and the process of the agents' port."""

import asyncio
import socket

import pytest

from evaluator.core.sources.agents.calls import Frame, FrameKind, FrameSocket

LARGE = b"a" * (300 << 10)


class Clock:
    """The event loop's clock, which a test advances."""

    def __init__(self, loop, monkeypatch):
        self.now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self.now)


async def test_frames_of_some_turns_are_sent_together_and_many_bytes_at_once(monkeypatch):
    clock = Clock(asyncio.get_running_loop(), monkeypatch)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    frames = await FrameSocket.connected(ours)
    for number in range(3):
        frames.send(FrameKind.READ, number)
        await asyncio.sleep(0)
    with pytest.raises(BlockingIOError):
        theirs.recv(1, socket.MSG_PEEK)
    clock.now += 0.1
    other = await FrameSocket.connected(theirs.dup())
    received = other.frames()
    expected = [Frame(FrameKind.READ, number, b"") for number in range(3)]
    assert [await anext(received) for _ in range(3)] == expected
    frames.send(FrameKind.MESSAGE, 7, LARGE)
    assert theirs.recv(1, socket.MSG_PEEK)
    assert await anext(received) == Frame(FrameKind.MESSAGE, 7, LARGE)
    for end in (theirs, frames, other):
        end.close()
