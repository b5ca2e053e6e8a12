"""Timelines equal what a second-by-second replay of the same transitions shows."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.decide import Decisions, decide
from evaluator.core.policy.durations import Phase
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.readings.store import Store
from evaluator.features.history.history import History, Query
from evaluator.features.history.plan import Transition, Transitions
from evaluator.features.history.timeline import COLUMNS, timeline
from plimsoll.steps import finished
from wire.codec import Delta

NODES = NodeIndex(["node-a", "node-b", "node-c"])
LENGTH = 2 * COLUMNS


def add(history, policy, strategy, position, was, now, at):
    move = Transition(NODES[position], int(was), int(now), 0, None, math.nan)
    list(history.add_transitions([Transitions(policy, strategy, [move])], float(at)))


moves = st.lists(
    st.tuples(
        st.integers(0, LENGTH - 1),
        st.sampled_from([StrategyName.DONTSCHEDULE, StrategyName.DESCHEDULE]),
        st.integers(0, 2),
        st.sampled_from(list(Phase)),
    ),
    max_size=30,
).map(sorted)


@given(moves, st.integers(0, LENGTH - 4))
def test_timeline_equals_a_replay(parsed, world, since):
    policy, history, state = parsed("demo"), History(1 << 20, 1e9), {}
    worst = np.zeros((3, LENGTH), np.uint8)
    for at, strategy, position, phase in world:
        was = np.uint8(state.get((strategy, position), (0, 0))[1])
        if was != phase:
            add(history, policy, strategy, position, was, phase, at)
            begun = state.get((strategy, position), (0, 0))[0]
            np.maximum(worst[position, begun : at + 1], was, out=worst[position, begun : at + 1])
            worst[position, at] = max(worst[position, at], phase)
            state[strategy, position] = (at, np.uint8(phase))
    changed = {position for _, position in state}
    for (_, position), (begun, phase) in state.items():
        np.maximum(worst[position, begun:], phase, out=worst[position, begun:])
    made = finished(
        timeline(history, Decisions(), Query(since=0.0, until=float(LENGTH)), by="node")
    )
    assert {row.name for row in made.rows} == {NODES[position] for position in changed}
    for row in made.rows:
        expected = worst[NODES.index(row.name)].reshape(COLUMNS, 2).max(axis=1)
        assert row.phases.tolist() == expected.tolist()
    # A part of the interval: what was before it is known from the first record after it.
    part = finished(
        timeline(history, Decisions(), Query(since=float(since), until=float(LENGTH)), by="node")
    )
    for row in part.rows:
        assert row.phases.max() <= worst[NODES.index(row.name), since:].max()


def test_node_that_violates_all_the_time_is_shown_without_a_record(parsed, rule):
    store, history = Store(stale_after=60.0, started=0.0), History(1 << 20, 1e9)
    store.subscribe(["m"])
    for node in NODES:
        store.report(node, Delta({"m": 9.0 if node == "node-b" else 1.0}), 0.0)
    policies = [
        parsed("demo", dontschedule=[rule("m GreaterThan 5")]),
        parsed("other", namespace="else", deschedule=[rule("m GreaterThan 5")]),
    ]
    decisions = decide(policies, NODES, store, now=0.0)

    def rows(**query):
        by = query.pop("by", "node")
        query = Query(since=0.0, until=60.0, **query)
        made = finished(finished(timeline(history, decisions, query, by=by)).shown_rows())
        return {row.name: (row.runs, row.violated_share) for row in made}

    always = ([(0, COLUMNS, "violated")], 1.0)
    assert rows() == {"node-b": always}
    assert rows(namespace="nowhere") == {}
    assert rows(namespace="ns", by="policy", node="node-b") == {"ns/demo": always}
    assert rows(node="node-b", by="policy") == {"ns/demo": always, "else/other": always}
    assert rows(node="node-a", by="policy") == {}


def test_timeline_of_many_policies_is_made_in_small_steps(parsed):
    """The phases of some policies and nodes are a step: all of them take tens of milliseconds."""
    history, policies = History(1 << 20, 1e9), [parsed(f"demo-{n}") for n in range(500)]
    for policy in policies:
        for position in range(len(NODES)):
            add(history, policy, StrategyName.DONTSCHEDULE, position, 0, 3, 1.0)
    query = Query(since=0.0, until=60.0)
    steps = list(timeline(history, Decisions(), query, by="node"))
    assert len(steps) >= len(policies) * len(NODES) / 64
    made = finished(timeline(history, Decisions(), query, by="node"))
    assert len(list(made.shown_rows())) == len(made.rows) == len(NODES)


def test_rows_beyond_the_most_are_counted(parsed):
    policy, history = parsed("demo"), History(1 << 20, 1e9)
    for position, times in enumerate((1, 3, 2)):
        for at in range(2 * times):
            add(
                history,
                policy,
                StrategyName.DONTSCHEDULE,
                position,
                3 * (at % 2),
                3 - 3 * (at % 2),
                at,
            )
    made = finished(timeline(history, Decisions(), Query(since=0.0, until=60.0), by="node", most=2))
    assert [(row.name, row.transitions) for row in made.rows] == [("node-b", 6), ("node-c", 4)]
    assert made.more == 1
