"""Log lines about label conflicts are few, for any number of nodes and toggled policies."""

import pytest

from evaluator.core.model.node_labels import LabelConflict
from evaluator.features.labels.feature import ConflictLog
from tests.clock import Clock


class Logger:
    def __init__(self, lines):
        self._lines = lines

    def warning(self, event, **fields):
        self._lines.append(fields)


@pytest.fixture
def clock():
    return Clock(0.0)


@pytest.fixture
def lines():
    return []


@pytest.fixture
def conflicts(clock, lines):
    return ConflictLog(Logger(lines), clock=clock)


def on(count, key="zone"):
    return [LabelConflict(f"n{number:04}", key, "violating", "eu-1") for number in range(count)]


def test_one_line_names_ten_nodes_and_counts_all(conflicts, lines):
    conflicts.add(on(700))
    conflicts.add(on(2392)[700:])
    conflicts.write()
    (line,) = lines
    assert (line["label"], line["desired"], line["found"]) == ("zone", "violating", "eu-1")
    assert line["nodes"] == 2392
    assert line["some"].split(",") == [f"n{number:04}" for number in range(10)]


def test_each_label_and_value_has_a_line(conflicts, lines):
    conflicts.add([*on(3), *on(2, "disk"), LabelConflict("n9", "zone", "other", "eu-1")])
    conflicts.write()
    assert [(line["label"], line["desired"], line["nodes"]) for line in lines] == [
        ("zone", "violating", 3),
        ("disk", "violating", 2),
        ("zone", "other", 1),
    ]


def test_logged_conflict_is_not_logged_again(conflicts, lines):
    conflicts.add(on(3))
    conflicts.write()
    conflicts.write()
    assert len(lines) == 1


def test_policy_toggled_each_second_writes_a_bounded_number_of_lines(conflicts, clock, lines):
    """A burst of 20, then one per 5 seconds; the rest is counted."""
    for clock.now in range(600):
        conflicts.add(on(100))
        conflicts.write()
    assert len(lines) <= 20 + 600 / 5
    assert sum(1 + line.get("not_logged_before", 0) for line in lines) >= 590
