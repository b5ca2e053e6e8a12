"""Annotations of nodes that a hostile kubelet writes: they affect its own node alone, and neither pages nor writes fail."""

import json
import math

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import decode_node
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy import parse
from evaluator.features.memory.controller import MemoryMetrics
from evaluator.features.memory.feature import MemoryReport
from evaluator.features.memory.readings import Held, Memories, records
from evaluator.features.memory.scores import LONGEST, MOST, NodeMemory
from evaluator.features.memory.scores import parse as parse_memory
from evaluator.features.registry import VOCABULARY
from tests.evaluator.conftest import make_rule, make_tas

KEY = PolicyKey("ns", "demo")
NOW = 1_790_000_000.0
WRITTEN = "2026-09-21T14:13:20.000000Z"
HOSTILE = "\x1b]0;owned\x07\u202e<script>"


def entry(**changed):
    return {"score": 5.0, "at": WRITTEN, "violated": True, **changed}


def annotation(system="machine-bad", **scores):
    return json.dumps({"systemUUID": system, "scores": {"ns/demo": entry(), **scores}})


def one(**changed):
    return annotation(**{"ns/demo": entry(**changed)})


NOT_OURS = {
    "no JSON": "\x00\xff{",
    "another type": "[]",
    "deep": "[" * (LONGEST - 1),
    "huge": annotation() + " " * 1_000_000,
    "many policies": annotation(**{f"ns/{number}": entry() for number in range(100)}),
    "a huge number": one().replace("5.0", "9" * 5000),
    "NaN": one(score=math.nan),
    "infinite": one(score=math.inf),
    "negative": one(score=-1),
    "above any score": one(score=2 * MOST),
    "a truth value": one(score=True),
    "text": one(score="5"),
    "no time": one(at=None),
    "NaN as time": one(at=math.nan),
    "a number as time": one(at=1e300),
    "no zone": one(at="2026-09-21T14:13:20"),
    "before 1970": one(at="1969-12-31T23:59:59Z"),
    "before the first year": one(at="0001-01-01T00:00:00+23:59"),
    "after the last year": one(at="9999-12-31T23:59:59-23:59"),
    "violated is text": one(violated="yes"),
    "no namespace": annotation(demo=entry()),
    "hostile devices": one(devices={HOSTILE: {"score": 1, "at": WRITTEN}}),
    "another machine": annotation(system="machine-good"),
    "no machine": annotation(system=None),
}
OURS = {
    "far in the future": one(at="9999-12-31T23:59:59.000000Z", score=MOST),
    "other policies": annotation(**{"victim/secret": entry(), f"{HOSTILE}/{HOSTILE}": entry()}),
}


def node(name, text):
    meta = {"name": name, "uid": f"uid-{name}", "annotations": {"plimsoll.io/memory": text}}
    info = {"nodeInfo": {"systemUUID": f"machine-{name}"}}
    return decode_node(json.dumps({"metadata": meta, "status": info}))


class World:
    """A node with a hostile annotation beside one that failed once, and a policy with a memory."""

    def __init__(self, text):
        made = make_tas("demo", dontschedule=[make_rule("m Equals 1")])
        made["metadata"]["annotations"] = {"plimsoll.io/memory": "30d"}
        self.policy = parse.parse(made, vocabulary=VOCABULARY)
        self.memories = Memories(lambda: {KEY: self.policy}, wall=lambda: NOW)
        self.nodes = {
            "bad": node("bad", text),
            "good": node("good", annotation("machine-good", **{"ns/demo": entry(score=1.0)})),
        }
        for name, one in self.nodes.items():
            self.memories.changed(name, one)

    def held(self, now=NOW):
        names = NodeIndex(sorted(self.nodes))
        mask = Held(self.memories, epoch=0.0)(self.policy, names, now)
        return [] if mask is None else names.names_at(mask)

    def reported(self):
        """What statuses and pages say, as JSON."""
        metrics = MemoryMetrics(CollectorRegistry())
        report = MemoryReport(self.memories, metrics.flapping_nodes, lambda: 2, lambda: NOW)
        decision = type("Decision", (), {"policy": self.policy})
        parts = [report.policy(decision), *(report.written(one) for one in self.nodes.values())]
        plain = [msgspec.to_builtins(part) for part in parts]
        return [json.loads(json.dumps(part, allow_nan=False)) for part in plain], report.part(
            decision
        )

    def column(self):
        names = NodeIndex(sorted(self.nodes))
        return self.memories.column("violation_score_ns_demo", names, NOW).values.tolist()


@pytest.mark.parametrize("text", NOT_OURS.values(), ids=NOT_OURS)
def test_annotation_that_was_not_written_by_us_counts_as_nothing(text):
    world = World(text)
    assert world.held() == []
    assert world.column() == [0.0, 1.0]
    assert records(world.nodes["bad"]) == {}
    (policy, bad, good), _ = world.reported()
    assert [row["node"] for row in policy["memory"]["nodes"]] == ["good"]
    assert bad["memory"] == {}
    assert good["memory"]["ns/demo"]["score"] == 1.0


@pytest.mark.parametrize("text", OURS.values(), ids=OURS)
def test_forged_scores_affect_their_own_node_and_policies_and_are_bounded(text):
    world = World(text)
    assert world.held() == ["bad"]
    assert world.column()[1] == 1.0
    (policy, *_), part = world.reported()
    assert [row["node"] for row in policy["memory"]["nodes"]] == ["bad", "good"]
    assert part.conditions[0].message.startswith("1 of 2 nodes (bad) stay in violation")
    # The next transition leaves the policies of others out, and what it writes is read again.
    memory = world.memories.of_node("bad")
    ended = memory.after((), (), world.memories.half_lives, NOW)
    again = ended.after({KEY}, (), world.memories.half_lives, NOW + 60)
    assert again.scores.keys() == {KEY}
    assert again.scores[KEY].value <= MOST + 1
    assert len(again.text()) < LONGEST
    assert NodeMemory("x").after({KEY}, (), world.memories.half_lives, NOW).scores[KEY].value == 1.0


def test_score_of_the_future_decays_as_one_of_now():
    """It would hold the node until a person deletes it."""
    devices = {"UUID=GPU-1": {"score": 8.0, "at": "9999-12-31T23:59:59Z"}}
    world = World(one(at="9999-12-31T23:59:59Z", score=8.0, devices=devices))
    month, half_lives = 30 * 86_400.0, world.memories.half_lives
    assert world.held() == ["bad"]
    assert world.held(NOW + 2 * month) == []
    # The leader writes it anew, so that it does not begin again with each restart.
    written = parse_memory(world.nodes["bad"].annotation("plimsoll.io/memory"))
    again = written.after({KEY}, (), half_lives, NOW)
    assert again is not written
    score = again.scores[KEY]
    assert (score.value, score.at, score.violated) == (8.0, NOW, True)
    assert score.devices["UUID=GPU-1"].at == NOW
    assert again.after({KEY}, (), half_lives, NOW) is again
    # Neither without a verdict, nor for a clock that is a little ahead.
    assert written.after((), {KEY}, half_lives, NOW) is written
    assert again.after({KEY}, (), half_lives, NOW - 1) is again
