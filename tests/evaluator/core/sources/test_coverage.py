"""Log lines about a source's coverage: metrics and nodes, once per change, in few sentences."""

import pytest

from evaluator.core.sources.poller import Coverage, Line


@pytest.fixture
def coverage():
    return Coverage("prometheus")


def test_coverage_lists_matching_metrics_and_those_without_a_node(coverage):
    coverage.note("a", frozenset(), "")
    coverage.note("b", frozenset(), "")
    coverage.note("c", frozenset({"node-2", "node-1"}), "")
    coverage.note("d", frozenset({"node-1", "node-2", "node-3"}), "")
    coverage.note("e", None, "no series")
    coverage.note("f", frozenset(), "warning: partial response")
    assert coverage.changes(3) == [
        Line("prometheus has a, b for 3 of 3 nodes", False),
        Line("prometheus has c for 1 of 3 nodes, not for node-1, node-2", False),
        Line("prometheus has d for 0 of 3 nodes, not for node-1, node-2, node-3", True),
        Line("prometheus has no answer for e: no series", True),
        Line("prometheus has f for 3 of 3 nodes; warning: partial response", True),
    ]
    assert coverage.failing == 1


def test_each_change_is_reported_once(coverage):
    coverage.note("a", frozenset(), "")
    assert coverage.changed
    coverage.changes(3)
    coverage.note("a", frozenset(), "")
    assert not coverage.changed
    assert coverage.changes(3) == []
    coverage.note("a", None, "500")
    assert coverage.changed
    assert len(coverage.changes(3)) == 1
    coverage.note("a", frozenset(), "")
    assert coverage.changes(3) == [Line("prometheus has a for 3 of 3 nodes", False)]


def test_total_outage_is_one_sentence(coverage):
    for number in range(400):
        coverage.note(f"m{number:03}", None, "unreachable")
    assert coverage.changes(3) == [
        Line(
            "prometheus has no answer for m000, m001, m002, m003, m004 and 395 more: unreachable",
            True,
        )
    ]


def test_metric_of_no_policy_is_forgotten(coverage):
    coverage.note("a", None, "500")
    coverage.changes(3)
    coverage.keep(["b"])
    assert (coverage.failing, coverage.changed) == (0, False)
    coverage.note("a", None, "500")
    assert len(coverage.changes(3)) == 1
