"""The rings of records: what they keep, drop and find."""

import gc
import tracemalloc

import numpy as np
import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.durations import Phase
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.signals import ActionKind
from evaluator.features.history.history import History, Query
from evaluator.features.history.plan import Transition, Transitions
from evaluator.features.history.records import Cause, Kind, Why
from tests.alone import alone

AGE = 3600.0
SIZE = 2 << 20
KINDS = (*ActionKind, "evicted", "requeued")
"""Of actions."""
CAUSE = Cause("m", 5.0, "m GreaterThan 5")


@pytest.fixture
def policy(parsed, rule):
    return parsed("demo", dontschedule=[rule("m GreaterThan 5")])


def flapping(policy, nodes, now, readings):
    """All nodes move between clear and violated."""
    was = int(Phase.VIOLATED - now)
    moves = [
        Transition(node, was, int(now), int(Why.READING), CAUSE, reading)
        for node, reading in zip(nodes, readings.tolist(), strict=True)
    ]
    return [Transitions(policy, StrategyName.DONTSCHEDULE, moves)]


def read(history, **query):
    return [one.fields for one in history.newest_first(Query(**query)) if one is not None]


def test_record_says_what_changed_and_why(policy):
    history = History(SIZE, AGE, KINDS)
    nodes = NodeIndex(["node-a", "node-b"])
    [found] = flapping(policy, nodes, Phase.VIOLATED, np.array([7.5, np.nan]))
    found.moves[1] = found.moves[1]._replace(why=int(Why.MISSING))
    list(history.add_transitions([found], 100.0))
    assert read(history)[::-1] == [
        {
            "number": number,
            "at": 100.0,
            "kind": "violated",
            "policy": "ns/demo",
            "node": node,
            "mode": "enforce",
            "strategy": "dontschedule",
            "was": "clear",
            "why": why,
            "rule": "m GreaterThan 5",
            "metric": "m",
            "limit": 5.0,
            "reading": reading,
        }
        for number, node, why, reading in [
            (1, "node-a", "reading", 7.5),
            (2, "node-b", "missing", None),
        ]
    ]


def test_infinite_reading_is_no_missing_one(policy):
    history = History(SIZE, AGE, KINDS)
    nodes = NodeIndex(["node-a"])
    list(history.add_transitions(flapping(policy, nodes, Phase.VIOLATED, np.array([np.inf])), 1.0))
    assert [one["reading"] for one in read(history)] == ["+Inf"]


@alone
def test_storm_of_flapping_nodes_stays_within_the_bound_and_drops_no_action(policy):
    """5,000 nodes flap 40 times: 200,000 transitions."""
    history = History(SIZE, AGE, KINDS)
    nodes = NodeIndex([f"node-{number:04d}.example.com" for number in range(5_000)])
    readings = np.full(len(nodes), 7.0)
    moved = [flapping(policy, nodes, phase, readings) for phase in (Phase.CLEAR, Phase.VIOLATED)]
    history.add(ActionKind.LEADER, 0.0, text="replica-a leads")
    gc.collect()
    tracemalloc.start()
    try:
        for turn in range(40):
            for _ in history.add_transitions(moved[turn % 2], float(turn)):
                assert history.size <= SIZE
        taken, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(taken, peak) <= SIZE
    assert history.newest == 200_001
    assert history.count + history.dropped == history.newest
    assert history.count > 4_000
    newest = read(history, node=nodes[-1])
    assert [one["at"] for one in newest] == sorted((one["at"] for one in newest), reverse=True)
    assert newest[0]["at"] == 39.0
    assert history.complete_since(0.0) > 30.0
    assert [one["text"] for one in read(history, kinds=frozenset({ActionKind.LEADER}))] == [
        "replica-a leads"
    ]


def test_flood_of_placed_pods_drops_no_action():
    """5,000 pods a minute are normal at a rollout; what was evicted last night must stay."""
    history = History(1 << 20, AGE, KINDS)
    history.add("evicted", 0.0, pod="ns/web", text="m GreaterThan 5")
    for number in range(20_000):
        history.add(Kind.PLACED, 1.0, node="node-a", pod=f"ns/pod-{number:040d}")
    assert history.dropped > 10_000
    assert [one["pod"] for one in read(history, kinds=frozenset({"evicted"}))] == ["ns/web"]


@alone
def test_names_of_all_kinds_of_objects_stay_within_the_bound():
    """New pods all the time, with long names and texts."""
    history = History(SIZE, AGE, KINDS)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(8_000):
            history.add("evicted", 1.0, pod=f"ns/pod-{number:0200d}", text=f"{number}" * 1_000)
            assert history.size <= SIZE
        assert tracemalloc.get_traced_memory()[1] <= SIZE
    finally:
        tracemalloc.stop()
    assert read(history, pod=f"ns/pod-{7_999:0200d}")


def test_records_beyond_the_age_are_dropped(policy):
    history, nodes = History(SIZE, AGE, KINDS), NodeIndex([f"n{number}" for number in range(5_000)])
    for at in (0.0, 3_000.0, 6_000.0, 9_000.0):
        list(history.add_transitions(flapping(policy, nodes, 3, np.zeros(5_000)), at))
    history.forget(9_000.0)
    kept = {one["at"] for one in read(history)}
    assert 0.0 not in kept
    assert 9_000.0 in kept


def test_queries_select_by_object_kind_time_and_number():
    history = History(SIZE, AGE, KINDS)
    key, other = PolicyKey("ns", "demo"), PolicyKey("other", "demo")
    history.add(Kind.POLICY, 1.0, policy=key, text="created")
    history.add("evicted", 2.0, policy=key, node="node-a", pod="ns/web", text="m")
    history.add("evicted", 3.0, policy=other, node="node-a", pod="other/web", text="m")
    history.add(ActionKind.WRITTEN, 4.0, node="node-a", text="labels: x=y")
    history.add(ActionKind.LEADER, 5.0, text="replica-a leads")

    def numbers(**query):
        return [one["number"] for one in read(history, **query)]

    assert numbers() == [5, 4, 3, 2, 1]
    assert numbers(policy="ns/demo") == [2, 1]
    assert numbers(node="node-a") == [4, 3, 2]
    assert numbers(pod="other/web") == [3]
    assert numbers(node="nowhere") == []
    assert numbers(kinds=frozenset({"evicted", ActionKind.LEADER})) == [5, 3, 2]
    assert numbers(since=2.0, until=4.0) == [3, 2]
    assert numbers(after=3) == [5, 4]
    assert numbers(namespace="ns") == [2, 1]


def test_namespace_shows_no_record_that_names_an_object_of_another():
    history = History(SIZE, AGE, KINDS)
    history.add("evicted", 1.0, policy=PolicyKey("ns", "demo"), pod="other/web", text="m")
    history.add("evicted", 2.0, policy=PolicyKey("ns2", "demo"), text="a name that begins alike")
    assert read(history, namespace="ns") == read(history, namespace="other") == []
