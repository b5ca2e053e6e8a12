"""An internal error about one node delays that node alone; the others are written."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, Counter

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.isolation import Isolation
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.signals import Acted, NodeLabelsChanged, on_node
from evaluator.core.writes.node_writer import NodeWriter, WriteContext
from plimsoll.ratelimit import TokenBucket

BAD, GOOD = "node-bad", ("node-a", "node-b")


@dataclass
class Write:
    node: str
    value: str
    fields = frozenset({"p"})

    @property
    def shown(self):
        return self.value


class Wanted(Mapping):
    """Node → {"p": value}; raises for the bad node while it is broken."""

    def __init__(self, world):
        self._world, self.value = world, "1"

    def __getitem__(self, node):
        self._world.may_fail("wanted", node)
        return {"p": self.value}

    def __iter__(self):
        return iter((BAD, *GOOD))

    def __len__(self):
        return 3


class World:
    """A writer of one label, and what raises at the bad node: plan, wanted, compare, send or notice; "" if nothing does."""

    def __init__(self, rng, broken):
        self.broken, self.calls = broken, 0
        self.acted = []
        self.cluster = ClusterCache()
        self.cluster.nodes.replace(
            [Node(NodeMeta(name=name, resource_version="1", labels={})) for name in (BAD, *GOOD)]
        )
        self.registry = CollectorRegistry()
        errors = Counter("errors", "Errors.", ["part"], registry=self.registry)
        self.writes = Counter("writes", "Writes.", ["result"], registry=self.registry)
        self.wanted = Wanted(self)
        context = WriteContext(
            kube=None,
            cluster=self.cluster,
            decider=SimpleNamespace(waiting_for=[]),
            bucket=TokenBucket(1e6, 1000),
            isolation=Isolation(errors),
            rng=rng,
            publish=self.published,
        )
        self.writer = NodeWriter(
            context,
            "labels",
            plan=self.plan,
            compare=self.compare,
            send=self.send,
            writes=self.writes,
            notice=self.notice,
        )
        self.cluster.signals.connect([on_node(NodeLabelsChanged, self.writer.wake)])

    def may_fail(self, what, node):
        if (self.broken, node) == (what, BAD):
            self.calls += 1
            raise ZeroDivisionError(what)

    def plan(self):
        self.may_fail("plan", BAD)
        return self.wanted

    def want(self, value):
        self.wanted.value = value
        for node in self.cluster.nodes.objects:
            self.writer.wake(node)

    def compare(self, name, node, wanted):
        self.may_fail("compare", name)
        return None if node.metadata.labels == wanted else Write(name, wanted["p"])

    async def send(self, write):
        self.may_fail("send", write.node)
        version = str(1 + int(self.cluster.nodes.objects[write.node].metadata.resource_version))
        labels = {"p": write.value}
        return Node(NodeMeta(name=write.node, resource_version=version, labels=labels))

    def published(self, signal):
        if isinstance(signal, Acted):
            self.acted.append(signal.node)

    def notice(self, write):
        self.may_fail("notice", write.node)

    def values(self):
        found = {name: node.metadata.labels for name, node in self.cluster.nodes.objects.items()}
        return {name: labels.get("p") for name, labels in found.items()}

    def errors(self):
        samples = (s for family in self.registry.collect() for s in family.samples)
        return sum(s.value for s in samples if s.name == "errors_total")


@pytest.fixture
def world(rng, background):
    def start(broken):
        made = World(rng, broken)
        background(made.writer.run())
        made.writer.start_over()
        return made

    return start


@pytest.mark.parametrize("part", ["wanted", "compare", "send"])
async def test_node_that_raises_delays_no_other_and_is_tried_again(world, until, log_lines, part):
    lines = log_lines("logfmt")
    made = world(part)
    await until(lambda: made.values() == {BAD: None, **dict.fromkeys(GOOD, "1")})
    assert made.errors() >= 1
    made.want("2")
    await until(lambda: made.values() == {BAD: None, **dict.fromkeys(GOOD, "2")})
    made.broken = ""
    await until(lambda: made.values() == dict.fromkeys((BAD, *GOOD), "2"))
    text = [line for line in lines() if "ZeroDivisionError" in line]
    assert sum("Traceback" in line for line in text) == 1


async def test_write_whose_event_raises_is_recorded_all_the_same(world, until):
    made = world("notice")
    await until(lambda: made.values() == dict.fromkeys((BAD, *GOOD), "1"))
    assert sorted(made.acted) == sorted((BAD, *GOOD))
    assert made.errors() == 1


async def test_bad_node_is_left_alone_however_often_it_changes(world, until):
    made = world("compare")
    await until(lambda: made.calls == 1)
    for turn in range(20):
        made.want(str(turn))
        await until(lambda turn=turn: made.values()[GOOD[0]] == str(turn))
    assert made.calls < 10  # backoff: at most a few in this time


async def test_nodes_keep_their_plan_while_the_next_one_raises(world, until):
    made = world("")
    await until(lambda: made.values() == dict.fromkeys((BAD, *GOOD), "1"))
    made.broken = "plan"
    made.writer.wake()
    await until(lambda: made.errors() == 1)
    edited = NodeMeta(name=GOOD[0], resource_version="9", labels={"p": "x"})
    made.cluster.nodes.put(Node(edited))
    await until(lambda: made.values()[GOOD[0]] == "1")
    made.broken = ""
    made.wanted = Wanted(made)
    made.wanted.value = "2"
    await until(lambda: set(made.values().values()) == {"2"})


async def test_deleted_node_is_not_written(world, until):
    made = world("send")
    await until(lambda: made.errors() == 1)
    made.cluster.nodes.drop(made.cluster.nodes.objects[BAD])
    made.broken = ""
    made.want("2")
    await until(lambda: made.values() == dict.fromkeys(GOOD, "2"))
