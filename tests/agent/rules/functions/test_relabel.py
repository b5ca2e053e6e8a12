"""Labels made of other labels; the answers are those of Prometheus 2.42."""

import pytest

from agent.rules import labels
from agent.rules.functions import label_join, label_replace
from agent.rules.values import EvaluationError

DISK = labels.of_series("io", (("disk", "nvme0n1"), ("host", "a")))


def replaced(replacement, pattern, *, dst="out", src="disk"):
    ((found, _),) = label_replace([(DISK, 1.0)], dst, replacement, src, pattern)
    return labels.value(found, dst)


@pytest.mark.parametrize(
    ("replacement", "found"),
    [
        ("$1", "nvme0"),
        ("${1}x", "nvme0x"),
        ("$1x", ""),  # the group `1x`, which is not there
        ("$1-$2", "nvme0-n1"),
        ("$0", "nvme0n1"),
        ("$part", "n1"),
        ("${part}_", "n1_"),
        ("$part_", ""),
        ("$3", ""),
        ("$01", ""),
        ("$$1", "$1"),
        ("$", "$"),
        ("a$-b", "a$-b"),
        ("${1", "${1"),
        ("${ 1}", "${ 1}"),
        ("${}", "${}"),
        ("$é", ""),
        ("$999999999999", ""),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_references_in_a_replacement(replacement, found):
    assert replaced(replacement, "(nvme[0-9]+)(?P<part>n.*)") == found


def test_a_pattern_matches_the_whole_label_or_nothing_happens():
    assert label_replace([(DISK, 1.0)], "out", "x", "disk", "nvme") == [(DISK, 1.0)]
    assert replaced("x", "sda|nvme.*") == "x"


def test_a_group_that_took_no_part_is_empty():
    assert replaced("<$1>", "(sda)?nvme.*") == "<>"


def test_a_label_that_is_not_there_is_empty_and_can_match():
    assert replaced("none", "", src="missing") == "none"
    assert replaced("some", ".+", src="missing") == ""


def test_an_empty_replacement_takes_the_label_away():
    assert label_replace([(DISK, 1.0)], "disk", "", "disk", ".*") == [
        (labels.of_series("io", (("host", "a"),)), 1.0)
    ]


def test_the_name_is_a_label_too():
    ((found, _),) = label_replace([(DISK, 1.0)], "__name__", "disk_$1", "__name__", "(.*)")
    assert labels.value(found, "__name__") == "disk_io"


def test_other_series_are_looked_at_afresh():
    for disk in ("sda", "sdb", "sda"):
        series = labels.of_series("io", (("disk", disk),))
        ((found, value),) = label_replace([(series, 5.0)], "out", "$1", "disk", "sd(.)")
        assert (labels.value(found, "out"), value) == (disk[-1], 5.0)


@pytest.mark.parametrize(
    ("dst", "separator", "sources", "found"),
    [
        ("out", "-", ["disk", "host"], "nvme0n1-a"),
        ("out", "-", ["host", "missing", "disk"], "a--nvme0n1"),
        ("out", "", ["missing"], ""),
        ("out", "-", [], ""),
        ("host", "/", ["host", "host"], "a/a"),
        ("host", "/", [], ""),
    ],
)
def test_joins(dst, separator, sources, found):
    ((result, _),) = label_join([(DISK, 1.0)], dst, separator, sources)
    assert labels.value(result, dst) == found


@pytest.mark.parametrize(
    "call",
    [
        lambda vector: label_replace(vector, "a-b", "x", "disk", ".*"),
        lambda vector: label_replace(vector, "", "x", "disk", ".*"),
        lambda vector: label_replace(vector, "out\n", "x", "disk", ".*"),
        lambda vector: label_replace(vector, "out", "x", "disk", "("),
        lambda vector: label_join(vector, "1a", "-", ["disk"]),
        lambda vector: label_join(vector, "out", "-", ["disk", "é"]),
    ],
)
def test_what_is_no_label_or_pattern_is_said_even_of_no_series(call):
    with pytest.raises(EvaluationError):
        call([])


@pytest.mark.parametrize(
    "call",
    [
        lambda vector: label_replace(vector, "disk", "x", "disk", ".*"),
        lambda vector: label_join(vector, "disk", "-", ["host"]),
    ],
)
def test_two_series_may_not_become_one(call):
    other = labels.of_series("io", (("disk", "sda"), ("host", "a")))
    with pytest.raises(EvaluationError, match="same labelset"):
        call([(DISK, 1.0), (other, 2.0)])


def test_a_label_joined_with_itself_again_and_again_does_not_fill_the_memory():
    longer = label_join([(DISK, 1.0)], "disk", "x" * 3000, ["disk", "disk"])
    with pytest.raises(EvaluationError, match="more than 4096 characters"):
        label_join(longer, "disk", "", ["disk", "disk"])
