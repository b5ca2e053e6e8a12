"""Label conflicts that are kept up to date equal those of all nodes compared at once, for any order of events."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from evaluator.core.model import node_labels
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.node_labels import LabelConflict
from evaluator.core.writes.node_plan import NodePlan
from evaluator.features.labels.feature import LabelConflicts, LabelMetrics
from tests.examples import examples

NODES = ("node-a", "node-b")
nodes = st.sampled_from(NODES)
keys = st.sampled_from(["p", "q"])
labellings = st.dictionaries(keys, st.sampled_from(["v", "w"]))
events = st.one_of(
    st.tuples(st.just("node"), nodes, st.none() | st.tuples(labellings, st.frozensets(keys))),
    st.tuples(st.just("want"), st.dictionaries(nodes, labellings), st.none()),
    st.tuples(st.just("step"), st.integers(1, 2), st.none()),
)


class World:
    """Nodes, what is wanted of them, and the conflicts."""

    def __init__(self):
        self.nodes, self.wanted, self.published = {}, {}, []
        cluster = SimpleNamespace(nodes=SimpleNamespace(objects=self.nodes))
        self.conflicts = LabelConflicts(
            cluster,
            LabelMetrics(CollectorRegistry()),
            lambda _signal: self.published.append(self.conflicts.latest),
        )
        self.plan = NodePlan(self.conflicts.compare)

    def put(self, name, labels, owned):
        self.nodes[name] = Node(NodeMeta(name=name, uid="u", labels=labels, owned_labels=owned))
        self.changed(name)

    def changed(self, name):
        self.conflicts.node_changed(name)
        self.plan.changed(name)

    def want(self, wanted):
        self.wanted = wanted
        self.plan.set_desired(wanted)

    def compare(self, limit=10):
        self.plan.step(self.nodes.get, limit)
        self.conflicts.publish()

    def from_scratch(self):
        found = (
            node_labels.compare(name, node.node_labels, self.wanted.get(name, {})).conflicts
            for name, node in sorted(self.nodes.items())
        )
        return tuple(conflict for conflicts in found for conflict in conflicts)


@settings(max_examples=examples(60))
@given(st.lists(events, max_size=12))
def test_conflicts_equal_those_from_scratch(happened):
    world = World()
    for what, subject, more in happened:
        match what:
            case "node" if more:
                world.put(subject, *more)
            case "node":
                world.nodes.pop(subject, None)
                world.changed(subject)
            case "want":
                world.want(subject)
            case "step":
                world.compare(subject)
    world.compare()
    assert world.conflicts.latest == world.from_scratch()
    assert all(one != other for one, other in zip(world.published, world.published[1:]))  # noqa: B905


def test_conflict_is_published_when_it_begins_and_ends():
    world = World()
    world.put("node-a", {"p": "theirs"}, frozenset())
    world.want({"node-a": {"p": "v"}})
    conflict = LabelConflict("node-a", "p", "v", "theirs")
    for _ in range(2):
        world.compare()
        world.plan.changed("node-a")
    assert world.published == [(conflict,)]
    world.want({})
    world.compare()
    assert world.published == [(conflict,), ()]


@pytest.mark.parametrize("leaves", ["deleted", "agrees"])
def test_conflict_of_a_node_ends_with_its_cause(leaves):
    world = World()
    world.put("node-a", {"p": "theirs"}, frozenset())
    world.want({"node-a": {"p": "v"}})
    world.compare()
    if leaves == "deleted":
        del world.nodes["node-a"]
        world.changed("node-a")
    else:
        world.put("node-a", {"p": "v"}, frozenset())
    world.compare()
    assert world.conflicts.latest == ()
