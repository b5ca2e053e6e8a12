"""label_replace() and label_join(); the expected results are from Prometheus 2.42."""

import pytest

from agent.rules.promql import labels
from agent.rules.promql.budget import Budget, LimitError
from agent.rules.promql.functions.labels import Relabelling, joining, replacing
from agent.rules.promql.memo import columns
from agent.rules.promql.regex import compiled
from agent.rules.promql.values import EvaluationError

DISK = labels.of_series("io", (("disk", "nvme0n1"), ("host", "a")))


def label_replace(vector, dst, replacement, src, pattern):
    return relabelled(vector, replacing(dst, replacement, src, compiled(pattern)))


def label_join(vector, dst, separator, sources):
    return relabelled(vector, joining(dst, separator, sources))


def relabelled(vector, relabel):
    sets, values = columns(vector)
    return list(zip(Relabelling(relabel)(sets, Budget()), values, strict=True))


def replaced(replacement, pattern, *, dst="out", src="disk"):
    ((found, _),) = label_replace([(DISK, 1.0)], dst, replacement, src, pattern)
    return labels.value(found, dst)


@pytest.mark.parametrize(
    ("replacement", "found"),
    [
        ("$1", "nvme0"),
        ("${1}x", "nvme0x"),
        ("$1x", ""),  # the group `1x` does not exist
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
def test_references_in_a_replacement_are_expanded(replacement, found):
    assert replaced(replacement, "(nvme[0-9]+)(?P<part>n.*)") == found


def test_pattern_must_match_the_whole_label():
    assert label_replace([(DISK, 1.0)], "out", "x", "disk", "nvme") == [(DISK, 1.0)]
    assert replaced("x", "sda|nvme.*") == "x"


def test_unmatched_group_is_empty():
    assert replaced("<$1>", "(sda)?nvme.*") == "<>"


def test_missing_label_is_empty_and_can_match():
    assert replaced("none", "", src="missing") == "none"
    assert replaced("some", ".+", src="missing") == ""


def test_empty_replacement_removes_the_label():
    assert label_replace([(DISK, 1.0)], "disk", "", "disk", ".*") == [
        (labels.of_series("io", (("host", "a"),)), 1.0)
    ]


def test_metric_name_is_a_label_too():
    ((found, _),) = label_replace([(DISK, 1.0)], "__name__", "disk_$1", "__name__", "(.*)")
    assert labels.value(found, "__name__") == "disk_io"


def test_other_series_are_relabelled_again():
    relabelling = Relabelling(replacing("out", "$1", "disk", compiled("sd(.)")))
    for disk in ("sda", "sdb", "sda"):
        series = labels.of_series("io", (("disk", disk),))
        (found,) = relabelling((series,), Budget())
        assert labels.value(found, "out") == disk[-1]


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
def test_labels_are_joined(dst, separator, sources, found):
    ((result, _),) = label_join([(DISK, 1.0)], dst, separator, sources)
    assert labels.value(result, dst) == found


@pytest.mark.parametrize(
    "call",
    [
        lambda vector: label_replace(vector, "disk", "x", "disk", ".*"),
        lambda vector: label_join(vector, "disk", "-", ["host"]),
    ],
)
def test_series_that_become_equal_are_an_error(call):
    other = labels.of_series("io", (("disk", "sda"), ("host", "a")))
    with pytest.raises(EvaluationError, match="same labelset"):
        call([(DISK, 1.0), (other, 2.0)])


def test_label_joined_repeatedly_does_not_fill_memory():
    longer = label_join([(DISK, 1.0)], "disk", "x" * 3000, ["disk", "disk"])
    with pytest.raises(EvaluationError, match="more than 4096 characters"):
        label_join(longer, "disk", "", ["disk", "disk"])


def test_new_labels_are_charged_before_the_next_is_made():
    made = []

    def relabel(found):
        made.append(found)
        return labels.replace(found, {"out": "x" * 4000})

    budget = Budget()
    budget.start_rule(free=10_000)
    many = tuple(labels.of_series("io", (("disk", str(n)),)) for n in range(1000))
    with pytest.raises(LimitError, match="more memory"):
        Relabelling(relabel)(many, budget)
    assert len(made) == 3


def test_oversized_replacement_is_rejected_before_it_is_built():
    with pytest.raises(EvaluationError, match="more than 4096 characters"):
        replaced("$1" * 9000, "(.*)")
