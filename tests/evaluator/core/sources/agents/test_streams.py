"""Streams per node: how many, how often they start, and which one counts."""

import pytest

from evaluator.core.sources.agents.limits import AgentLimits
from evaluator.core.sources.agents.stream import StreamRegistry, TooManyError


def registry(*, remembered=1000, **limits):
    usual = {"streams_per_node": 3, "pause": 5.0, "beginnings": 100}
    return StreamRegistry(AgentLimits(**(usual | limits)), remembered=remembered)


def test_newest_stream_of_a_node_counts_and_knows_its_predecessor():
    made = registry()
    assert made.enter("a", "first", 0.0) is None
    assert made.enter("b", "other", 0.0) is None
    assert made.enter("a", "second", 0.0) == "first"
    assert (len(made), set(made.current)) == (2, {"second", "other"})


def test_replaced_stream_removes_nothing_when_it_ends():
    made = registry()
    made.enter("a", "first", 0.0)
    made.enter("a", "second", 0.0)
    made.leave("a", "first")
    assert made.current == ("second",)
    made.leave("a", "second")
    assert len(made) == 0


def test_streams_are_counted_until_they_end():
    made = registry()
    for stream in ("first", "second", "third"):
        made.enter("a", stream, 0.0)
    with pytest.raises(TooManyError, match="node a already has 3 open streams"):
        made.enter("a", "fourth", 0.0)
    assert made.current == ("third",)
    made.enter("b", "of another node", 0.0)
    made.leave("a", "first")
    assert made.enter("a", "fourth", 0.0) == "third"


def test_new_streams_are_rate_limited_per_node():
    made = registry(beginnings=2)
    for stream in ("first", "second"):
        made.enter("a", stream, 0.0)
        made.leave("a", stream)
    for now in (0.0, 4.9):
        with pytest.raises(TooManyError, match="streams of node a are opened too often"):
            made.enter("a", "third", now)
    made.enter("b", "other", 4.9)
    made.enter("a", "third", 5.1)
    made.leave("a", "third")
    with pytest.raises(TooManyError):
        made.enter("a", "fourth", 5.2)


def test_rejected_stream_changes_nothing():
    made = registry(beginnings=1)
    made.enter("a", "first", 0.0)
    for _ in range(10):
        with pytest.raises(TooManyError):
            made.enter("a", "second", 1.0)
    assert made.current == ("first",)
    assert made.enter("a", "second", 6.0) == "first"


def test_short_lived_names_are_forgotten():
    made = registry(beginnings=1, remembered=10)
    for number in range(1000):
        made.enter(f"node-{number}", number, 0.0)
        made.leave(f"node-{number}", number)
    assert len(made._beginnings) == 10
    with pytest.raises(TooManyError):
        made.enter("node-999", "again", 0.0)
