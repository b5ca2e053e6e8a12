"""The state of each node for a policy, and the strip over thousands of nodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.features.pages.explain.states import NodeState, counts, states_of, strip
from plimsoll.steps import finished
from wire.codec import Delta

START = 1000.0


@pytest.fixture
def store():
    made = Store(stale_after=30.0, started=START)
    made.subscribe(["m", "k"])
    return made


def words(decisions):
    [decision] = decisions.policies.values()
    codes = finished(states_of(decision, decisions.table))
    return {
        node: NodeState(code).word
        for node, code in zip(decisions.table.nodes, codes.tolist(), strict=True)
    }


def test_the_most_serious_state_counts(store, parsed, rule):
    policy = parsed(
        dontschedule=[rule("m GreaterThan 5")],
        deschedule={"rules": [rule("m GreaterThan 3")], "for": "10s"},
        labeling=[rule("k Equals 1", "hot=yes")],
    )
    store.report("violated", Delta({"m": 9.0, "k": 1.0}), START)
    store.report("pending", Delta({"m": 4.0, "k": 1.0}), START)
    store.report("labelled", Delta({"m": 1.0, "k": 1.0}), START)
    store.report("missing", Delta({"m": 1.0}, absent=["k"]), START)
    store.report("clear", Delta({"m": 1.0, "k": 0.0}), START)
    names = ("awaited", "clear", "labelled", "missing", "pending", "violated")
    assert words(decide([policy], names, store, now=START)) == {name: name for name in names}


def test_node_that_never_had_a_metric_is_clear_if_missing_readings_are_ignored(store, parsed, rule):
    ignored = parsed("ignored", dontschedule=[rule("m GreaterThan 5")])
    held = {"rules": [{**rule("m GreaterThan 5"), "whenMissing": "violate"}], "for": "10s"}
    strict = parsed("strict", dontschedule=held)
    store.report("absent", Delta(absent=["m"], never_had=frozenset({"m"})), START)
    store.report("lost", Delta(absent=["m"]), START)
    store.report("well", Delta({"m": 1.0}), START)
    names = ("absent", "lost", "well")
    assert words(decide([ignored], names, store, now=START)) == {
        "absent": "clear",
        "lost": "missing",
        "well": "clear",
    }
    assert words(decide([strict], names, store, now=START))["absent"] == "pending"


@pytest.mark.parametrize(("operator", "expected"), [("anyOf", "violated"), ("allOf", "clearing")])
def test_clearing_depends_on_whether_the_strategy_would_still_be_violated(
    store, parsed, rule, operator, expected
):
    rules = [rule("m GreaterThan 5"), rule("k GreaterThan 5")]
    policy = parsed(dontschedule={"rules": rules, "logicalOperator": operator, "clearAfter": "10s"})
    store.report("a", Delta({"m": 9.0, "k": 9.0}), START)
    before = decide([policy], ["a"], store, now=START)
    store.report("a", Delta({"m": 1.0}), START + 1)
    after = decide([policy], ["a"], store, now=START + 1, before=before)
    assert words(after) == {"a": expected}
    store.report("a", Delta({"k": 1.0}), START + 2)
    last = decide([policy], ["a"], store, now=START + 2, before=after)
    assert words(last) == {"a": "clearing"}


CODES = arrays(np.uint8, st.integers(0, 700), elements=st.integers(0, max(NodeState)))


@given(CODES, st.integers(1, 300))
def test_a_strip_shows_the_worst_node_of_each_column_and_no_clear_one(codes, columns):
    found = strip(codes, columns)
    assert found.columns == min(len(codes), columns)
    shown = np.zeros(found.columns, np.uint8)
    end = 0
    for begin, width, word in found.runs:
        assert begin >= end
        assert width > 0
        end = begin + width
        shown[begin:end] = NodeState[word.upper()]
    for column, code in enumerate(shown.tolist()):
        begin, stop = (number * len(codes) // found.columns for number in (column, column + 1))
        assert code == codes[begin:stop].max()


@given(CODES)
def test_every_node_is_counted_once(codes):
    found = counts(codes)
    assert sum(found.values()) == len(codes)
    assert [*found] == [state.word for state in reversed(NodeState)]
