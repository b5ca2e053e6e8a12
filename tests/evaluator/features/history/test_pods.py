"""The last decision of a pod: what kube-scheduler was answered, and where the pod went."""

import tracemalloc

import numpy as np
import pytest
from msgspec import to_builtins

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeScores
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.core.signals import Answered
from evaluator.features.history.history import History, Query
from evaluator.features.history.pods import PodDecisions
from evaluator.features.history.records import Kind
from tests.alone import alone
from wire.codec import Delta

NOW = 1_700_000_000.0
NODES = ("node-a", "node-b", "node-c")


class World:
    """Decisions of one policy, and what became of its pods."""

    def __init__(self, policy):
        self.policy, self.now, self.nodes = policy, NOW, {}
        self.store = Store(stale_after=60.0, started=0.0)
        self.store.subscribe(["m_bytes"])
        self.history = History(1 << 20, 3600.0)
        self.read(1024.0)
        self.pods = PodDecisions(
            self.history,
            lambda: self.decisions,
            lambda pod: self.nodes.get(pod, ""),
            1 << 16,
            wall=lambda: self.now,
        )

    def read(self, value):
        """Node a reads the value, node b twice as much, and node c nothing."""
        for node, found in (("node-a", value), ("node-b", 2 * value)):
            self.store.report(node, Delta({"m_bytes": found}), 0.0)
        self.store.report("node-c", Delta({}, {"m_bytes"}), 0.0)
        self.decisions = decide([self.policy], NODES, self.store, now=0.0)

    def answer(self, pod="ns/web", **answers):
        self.pods.answered(Answered(pod, self.policy.key, self.decisions, len(NODES), **answers))

    def prioritize(self, scores, pod="ns/web"):
        nodes = self.decisions.table.nodes
        found = NodeScores(nodes, nodes.find(list(scores)), np.array(list(scores.values())))
        self.answer(pod, scores=found)

    def filter(self, pod="ns/web"):
        self.answer(pod, refused=self.decisions.policies[self.policy.key].dontschedule)

    def texts(self, kind):
        found = self.history.newest_first(Query(kinds=frozenset({kind})))
        return [one.fields.get("text") for one in found if one is not None]


@pytest.fixture
def world(parsed, rule):
    return World(
        parsed(
            "demo",
            dontschedule=[rule("m_bytes GreaterThan 1500")],
            scheduleonmetric=[rule("m_bytes LessThan 0")],
        )
    )


def test_decision_has_the_readings_of_that_moment(world):
    world.filter()
    world.prioritize({"node-a": 10, "node-c": 0})
    world.read(9000.0)
    world.now += 1
    list(world.pods.steps())
    assert to_builtins(world.pods.last_decision("ns/web")) == {
        "at": "2023-11-14T22:13:20.000Z",
        "policy": "ns/demo",
        "generation": 1,
        "mode": "enforce",
        "candidates": 3,
        "refused": 1,
        "refusedNodes": [
            {
                "node": "node-b",
                "reason": "violating demo: m_bytes GreaterThan 1500",
                "readings": {"m_bytes": 2048.0},
            }
        ],
        "rankedBy": "m_bytes",
        "ranked": [
            {"node": "node-a", "score": 10, "reading": 1024.0},
            {"node": "node-c", "score": 0, "reading": None},
        ],
    }
    world.nodes["ns/web"] = "node-a"
    list(world.pods.steps())
    found = world.pods.last_decision("ns/web")
    assert (found.chosen, found.readings) == ("node-a", {"m_bytes": 9000.0})
    [record] = [
        one.fields
        for one in world.history.newest_first(Query(kinds=frozenset({Kind.PLACED})))
        if one
    ]
    assert (record["pod"], record["node"], record["policy"]) == ("ns/web", "node-a", "ns/demo")


def test_retries_with_the_same_result_are_one_record(world):
    for _ in range(3):
        world.filter()
        list(world.pods.steps())
    world.read(9000.0)
    world.filter()
    list(world.pods.steps())
    reason = "violating demo: m_bytes GreaterThan 1500"
    assert world.texts(Kind.REFUSED) == [
        f"2 of 3 nodes refused, such as node-a {reason} (8.79 KiB)",
        f"1 of 3 nodes refused: node-b {reason} (2 KiB)",
    ]


@alone
def test_flood_of_pods_stays_within_the_bound(world):
    """New names all the time, some of them very long."""
    tracemalloc.start()
    try:
        for number in range(3_000):
            world.filter(f"ns/{'x' * (number % 7 * 1_000)}{number}")
            if number % 100 == 0:
                list(world.pods.steps())
            assert world.pods.size <= 1 << 16
        list(world.pods.steps())
        assert tracemalloc.get_traced_memory()[0] <= 3 << 20
    finally:
        tracemalloc.stop()
    assert world.pods.last_decision("ns/2996") is not None  # a short one, just now
    assert world.pods.last_decision("ns/7") is None


@alone
def test_answers_that_are_not_looked_at_yet_take_little_memory(world):
    """Each names 5,000 nodes."""
    nodes = [f"node-{number}" for number in range(5_000)]
    tracemalloc.start()
    try:
        for number in range(300):
            pod, refused = f"ns/{number}", dict.fromkeys(nodes, "no")
            scores = NodeScores(
                world.decisions.table.nodes, np.zeros(5_000, int), np.zeros(5_000, int)
            )
            world.answer(pod, refused=refused)
            world.answer(pod, scores=scores)
            del refused, scores
        assert tracemalloc.get_traced_memory()[0] <= 2 << 20
    finally:
        tracemalloc.stop()


def test_answers_about_policies_that_are_gone_are_ignored(world):
    world.pods.answered(Answered("ns/x", PolicyKey("ns", "no"), world.decisions, len(NODES), {}))
    world.prioritize({"node-a": 1}, "ns/y")
    list(world.pods.steps())
    assert world.pods.last_decision("ns/x") is world.pods.last_decision("ns/y") is None


def test_infinite_reading_is_one_in_the_past_too(world):
    world.read(float("inf"))
    world.filter()
    world.prioritize({"node-a": 10})
    list(world.pods.steps())
    found = to_builtins(world.pods.last_decision("ns/web"))
    assert found["refusedNodes"][0]["readings"] == {"m_bytes": "+Inf"}
