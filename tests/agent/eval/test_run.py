"""Hints for empty results: a similar name, labels without a match, or neither."""

from agent.eval.run import explained
from agent.rules.promql.labels import make
from agent.rules.promql.syntax.matchers import Matcher, Operator, Selector

KNOWN = [
    make({"__name__": name, **pairs}.items())
    for name, pairs in [
        ("node_load1", {}),
        ("node_load5", {}),
        ("node_load15", {}),
        ("node_forks_total", {}),
        *(("node_disk_reads_completed_total", {"device": f"sd{x}"}) for x in "dcba"),
    ]
]


def hint(metric, *matchers):
    return explained([Selector(metric, matchers)], KNOWN, where="this machine")


def test_missing_prefix_is_suggested():
    (said,) = hint("forks_total")
    assert said == "no series forks_total; this machine has: node_forks_total"


def test_similar_name_is_suggested():
    (said,) = hint("node_laod1")
    assert said == "no series node_laod1; this machine has: node_load1, node_load15, node_load5"


def test_name_without_a_similar_one_gets_no_suggestion():
    assert hint("zzz") == ["no series zzz on this machine"]


def test_unmatched_labels_are_reported():
    (said,) = hint("node_disk_reads_completed_total", Matcher("device", Operator.EQUAL, 'nvme"0'))
    name = "node_disk_reads_completed_total"
    shown = ", ".join(f'{name}{{device="sd{x}"}}' for x in "abc")
    assert said == rf'no series {name}{{device="nvme\"0"}}; this machine has: {shown}, and 1 more'


def test_existing_series_are_reported_as_existing():
    assert hint("node_load1") == ["matching series exist, but the result is empty"]
    assert (
        len(explained([Selector("a"), Selector("a"), Selector("node_load1")], KNOWN, where="it"))
        == 1
    )
