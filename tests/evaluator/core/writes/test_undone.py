"""Writes that another client undoes are delayed, more each time, until one holds."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.writes.undone import Undone, UndoneWrites, problems

HOUR = 3600.0


@dataclass(frozen=True)
class Write:
    shown: str = "taint a"
    fields: frozenset = frozenset({"a"})


class War:
    """Writes of a node, each undone after some seconds."""

    def __init__(self, manager=""):
        self.counted, self.now, self.version = 0, 0.0, 1
        self.undone = UndoneWrites(random.Random(1).random, self.count, lambda _node: manager)

    def count(self):
        self.counted += 1

    def node(self, version=None):
        return Node(NodeMeta(name="n", resource_version=str(version or self.version)))

    def written(self, write=Write()):
        self.version += 1
        return self.undone.wrote("n", write, self.node(), self.now)

    def undo(self, after=0.01, write=Write()):
        """The node needs the write again; return when it is written."""
        self.now += after
        self.version += 1
        delay = self.undone.note("n", self.node(), write, self.now)
        assert self.undone.is_delayed("n", write, self.now) == bool(delay)
        self.now += delay or 0.0
        assert not self.undone.is_delayed("n", write, self.now)
        return delay


@pytest.fixture
def war():
    return War()


def test_first_undone_write_is_repeated_at_once_and_no_problem(war):
    war.written()
    assert war.undo() == 0.0
    assert (war.counted, war.undone.latest) == (1, [])


def test_delays_grow_to_five_minutes(war):
    delays = []
    for _ in range(30):
        war.written()
        delays.append(war.undo())
    assert delays[0] == 0.0
    assert max(delays[:4]) <= 4.0
    assert sum(delays[10:]) / 20 > 100.0
    assert max(delays) <= 300.0
    assert war.undone.latest == [Undone("a", "n")]


def test_writes_in_an_hour_are_few(war):
    written = 0
    while war.now < HOUR:
        war.written()
        written += 1
        war.undo()
    assert written < 60  # 90,000 without a delay


def test_write_that_held_for_ten_minutes_starts_anew(war):
    for _ in range(6):
        war.written()
        war.undo()
    assert war.written() == 600.0
    war.now += 601.0
    war.undone.holds("n", war.now, exists=True)
    assert war.undone.latest == []
    assert war.undone.changed
    war.written()
    assert war.undo() == 0.0


def test_another_write_is_not_delayed_and_ends_the_problem_but_not_the_backoff(war):
    for _ in range(8):
        war.written()
        war.undo()
    other = Write("taint b", frozenset({"b"}))
    assert not war.undone.is_delayed("n", other, war.now)
    war.written(other)
    assert war.undone.latest == []
    assert war.undo(write=other) == 0.0
    war.written(other)
    assert war.undo(write=other) > 5.0


def test_state_of_a_node_from_before_the_write_does_not_count(war):
    war.written()
    assert war.undone.note("n", war.node(1), Write(), war.now) is None
    assert war.counted == 0


def test_one_undone_write_is_counted_once_however_often_it_is_compared(war):
    war.written()
    war.undo()
    for _ in range(5):
        assert war.undone.note("n", war.node(), Write(), war.now) is None
    assert war.counted == 1


def test_deleted_node_is_forgotten(war):
    for _ in range(4):
        war.written()
        war.undo()
    war.undone.holds("n", war.now, exists=False)
    assert war.undone.latest == []


@given(st.lists(st.tuples(st.sampled_from(["write", "undo", "hold", "gone", "clear"]), st.floats(0.0, 2000.0)), max_size=60))  # fmt: skip
def test_any_order_of_events_keeps_delays_within_bounds(events):
    war = War()
    for what, passed in events:
        war.now += passed
        match what:
            case "write":
                war.written()
            case "undo":
                delay = war.undo()
                assert delay is None or 0.0 <= delay <= 300.0
            case "clear":
                war.undone.clear()
            case _:
                war.undone.holds("n", war.now, exists=what == "hold")


def test_problem_names_the_field_manager_where_it_is_known():
    war = War("kops\n")
    for _ in range(3):
        war.written()
        war.undo()
    (sentence,) = problems("taint", war.undone.latest, 3)
    assert "taint a on 1 of 3 nodes (n) is taken away or changed by field manager kops\\n after each write" in sentence  # fmt: skip
