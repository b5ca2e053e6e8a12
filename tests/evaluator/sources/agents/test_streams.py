"""How many streams a node may have, how often they begin, and which of them counts."""

import pytest

from evaluator.sources.agents.limits import AgentLimits
from evaluator.sources.agents.streams import StreamRegistry, TooManyError


def registry(**limits):
    usual = {"streams_per_node": 3, "pause": 5.0, "beginnings": 100}
    return StreamRegistry(AgentLimits(**(usual | limits)))


def test_the_newest_stream_of_a_node_counts_and_knows_which_it_replaces():
    made = registry()
    assert made.enter("a", "first", 0.0) is None
    assert made.enter("b", "other", 0.0) is None
    assert made.enter("a", "second", 0.0) == "first"
    assert (len(made), set(made.current)) == (2, {"second", "other"})


def test_one_that_was_replaced_takes_nothing_along_when_it_goes():
    made = registry()
    made.enter("a", "first", 0.0)
    made.enter("a", "second", 0.0)
    made.leave("a", "first")
    assert made.current == ("second",)
    made.leave("a", "second")
    assert len(made) == 0


def test_streams_that_do_not_come_to_their_end_are_counted_until_they_do():
    made = registry()
    for stream in ("first", "second", "third"):
        made.enter("a", stream, 0.0)
    with pytest.raises(TooManyError, match="node a has 3 streams already"):
        made.enter("a", "fourth", 0.0)
    assert made.current == ("third",)
    made.enter("b", "of another node", 0.0)
    made.leave("a", "first")
    assert made.enter("a", "fourth", 0.0) == "third"


def test_streams_of_one_node_begin_at_a_bounded_pace_and_those_of_others_do_not_care():
    made = registry(beginnings=2)
    for stream in ("first", "second"):
        made.enter("a", stream, 0.0)
        made.leave("a", stream)
    for now in (0.0, 4.9):
        with pytest.raises(TooManyError, match="streams of node a begin too often"):
            made.enter("a", "third", now)
    made.enter("b", "other", 4.9)
    made.enter("a", "third", 5.1)
    made.leave("a", "third")
    with pytest.raises(TooManyError):
        made.enter("a", "fourth", 5.2)


def test_one_that_was_refused_changes_nothing():
    made = registry(beginnings=1)
    made.enter("a", "first", 0.0)
    for _ in range(10):
        with pytest.raises(TooManyError):
            made.enter("a", "second", 1.0)
    assert made.current == ("first",)
    assert made.enter("a", "second", 6.0) == "first"


def test_names_that_come_once_are_not_remembered_for_ever(monkeypatch):
    monkeypatch.setattr("evaluator.sources.agents.streams._REMEMBERED", 10)
    made = registry(beginnings=1)
    for number in range(1000):
        made.enter(f"node-{number}", number, 0.0)
        made.leave(f"node-{number}", number)
    assert len(made._beginnings) == 10
    with pytest.raises(TooManyError):
        made.enter("node-999", "again", 0.0)
