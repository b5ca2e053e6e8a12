"""An evaluator killed at any step and restarted converges without removing a correct label.

The real decision loop and cluster cache run against the API server's rules for server-side apply, without a network.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model import node_labels
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.node_labels import FIELD_MANAGER, NodeLabels
from evaluator.core.policy.parse import parse
from evaluator.core.readings.store import Store
from evaluator.core.signals import NodeLabelsChanged, on_node
from evaluator.core.writes.node_plan import NodePlan
from tests.examples import examples
from wire.codec import Delta

NODES = ("node-a", "node-b", "node-c")
STALE = 30.0
DEMO_KEY = "telemetry.aware.scheduling.demo/card"


class ApplyConflictError(Exception):
    """A 409 of the API server; `keys` are the conflicting labels, empty if the uid does not match."""

    def __init__(self, *keys):
        super().__init__(*keys)
        self.keys = keys


@dataclass
class LabelledNode:
    uid: str
    labels: dict[str, str] = field(default_factory=dict)
    owners: dict[str, set[str]] = field(default_factory=dict)
    """Label key → the managers that applied or wrote it."""


class ApplyServer:
    """Nodes with labels and their owners, under the API server's rules for server-side apply."""

    def __init__(self):
        self.nodes = {}
        self.writes = 0

    def add(self, name, **labels):
        """A node without applied labels; its labels belong to the kubelet."""
        self.nodes[name] = LabelledNode(f"uid-{name}")
        for key, value in labels.items():
            self.update(name, key, value, manager="kubelet")

    def update(self, name, key, value, manager="kubectl"):
        """A write other than apply: it takes ownership of a changed key, and deletes it for None."""
        node = self.nodes[name]
        if value is None:
            node.labels.pop(key, None)
            node.owners.pop(key, None)
        elif node.labels.get(key) != value:
            node.labels[key] = value
            node.owners[key] = {f"{manager}/update"}

    def apply(self, name, uid, labels, manager=FIELD_MANAGER):
        node = self.nodes.get(name)
        if node is None or node.uid != uid:
            raise ApplyConflictError
        disputed = [
            key
            for key, value in labels.items()
            if node.labels.get(key, value) != value and node.owners[key] - {manager}
        ]
        if disputed:
            raise ApplyConflictError(*disputed)
        before = dict(node.labels)
        for key in [key for key, owners in node.owners.items() if manager in owners]:
            if key not in labels:
                node.owners[key].discard(manager)
                if not node.owners[key]:
                    del node.owners[key], node.labels[key]
        for key, value in labels.items():
            node.labels[key] = value
            node.owners.setdefault(key, set()).add(manager)
        self.writes += before != node.labels

    def seen(self):
        """Return every node as the label controller sees it."""
        return {
            name: NodeLabels(
                node.uid,
                dict(node.labels),
                frozenset(k for k, owners in node.owners.items() if FIELD_MANAGER in owners),
            )
            for name, node in self.nodes.items()
        }


class KilledError(Exception):
    """The process was killed and lost its state."""


class EvaluatorRun:
    """One evaluator process, from its start to its kill after `steps` steps (None: not killed)."""

    def __init__(self, api, policies, steps):
        self.api = api
        self._policies = policies
        self._steps = steps
        self.cluster = ClusterCache()
        self.store = Store(stale_after=STALE, started=0.0)
        self.decider = DecisionLoop(
            self.cluster, self.store, Subscriptions(), Metrics(), clock=lambda: 1.0
        )
        self.plan = NodePlan(lambda *compared: node_labels.compare(*compared).apply)
        self.cluster.signals.connect([on_node(NodeLabelsChanged, self.plan.changed)])
        self.writes = []

    def seen(self, node):
        found = self.cluster.nodes.objects.get(node)
        return found.node_labels if found else None

    def step(self):
        if self._steps is not None:
            if self._steps == 0:
                raise KilledError
            self._steps -= 1

    def hear_of(self, kind):
        self.step()
        match kind:
            case "policies":
                self.cluster.policies.replace(self._policies)
            case "nodes":
                self.cluster.nodes.replace(nodes_as_watched(self.api))
            case "pods":
                self.cluster.pods.replace([])
        self.act()

    def hear_from(self, node, readings):
        self.step()
        values = {metric: value for metric, value in readings.items() if value is not None}
        subscribed = self.store.metrics
        said = {metric: value for metric, value in values.items() if metric in subscribed}
        self.store.report(node, Delta(said, subscribed - said.keys()), 1.0)
        self.act()

    def act(self):
        """One iteration of the decision loop and the label controller after a change."""
        if self.cluster.waiting_for:
            return
        self.decider.evaluate()
        if self.decider.waiting_for:
            return
        self.plan.set_desired(self.decider.latest.labels)
        while self.plan.pending:
            self.plan.step(self.seen, 2)
        for apply in tuple(self.plan.writes.values()):
            self.step()
            self.api.apply(apply.node, apply.uid, apply.labels)
            self.writes.append(apply)
            for node in nodes_as_watched(self.api):
                self.cluster.nodes.put(node)


def nodes_as_watched(api):
    return [
        Node(
            NodeMeta(
                name=name,
                uid=seen.uid,
                labels=dict(seen.labels),
                owned_labels=seen.owned,
            )
        )
        for name, seen in api.seen().items()
    ]


def right_labels(policies, readings):
    """The writes of one undisturbed run on nodes without labels."""
    api = ApplyServer()
    for node in NODES:
        api.add(node)
    live(api, policies, readings, order=range(100), steps=None)
    return {name: dict(node.labels) for name, node in api.nodes.items()}


def live(api, policies, readings, *, order, steps):
    """One run; `order` ranks its events. Agents report after the policies are known, which name the metrics."""
    life = EvaluatorRun(api, policies, steps)
    ranks = iter(order)
    kinds = sorted(("policies", "nodes", "pods"), key=lambda _: next(ranks))
    for kind in kinds:
        life.hear_of(kind)
    for node in sorted(NODES, key=lambda _: next(ranks)):
        life.hear_from(node, readings[node])
    return life


@pytest.fixture(scope="session")
def policies(tas, rule):
    return [
        parse(
            tas(
                "demo",
                deschedule=[rule("health Equals 2")],
                labeling=[
                    rule("health GreaterThan 0", "card=low"),
                    rule("load GreaterThan 0", "card=high"),
                ],
            )
        ),
        parse(tas("demo", "other-ns", deschedule=[rule("load Equals 2")])),
        parse(tas("calm", deschedule=[rule("load LessThan 0")])),
    ]


value = st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 1.0, 2.0]))
worlds = st.fixed_dictionaries(
    {node: st.fixed_dictionaries({"health": value, "load": value}) for node in NODES}
)
# Labels of an earlier process: correct or wrong by now, some of them of deleted policies.
left_behind = st.dictionaries(
    st.sampled_from(NODES),
    st.dictionaries(
        st.sampled_from(["demo", "calm", "retired-policy", DEMO_KEY]),
        st.sampled_from(["violating", "low", "high"]),
    ),
)
foreign = st.dictionaries(
    st.sampled_from(NODES),
    st.dictionaries(
        st.sampled_from(["demo", "zone", "retired-policy"]),
        st.sampled_from(["violating", "theirs"]),
        max_size=2,
    ),
)
kills = st.lists(st.integers(0, 12), max_size=6)
orders = st.lists(st.permutations(range(6)), min_size=7, max_size=7)


@settings(max_examples=examples(50), deadline=None)
@given(worlds, left_behind, foreign, kills, orders)
def test_labels_converge_after_a_kill_at_any_step_and_none_is_wrongly_removed(
    policies, readings, before, theirs, lives, arrivals
):
    wanted = right_labels(policies, readings)
    api = CheckedServer(ApplyServer(), wanted)
    for node in NODES:
        api.add(node, **theirs.get(node, {}))
        ours = {k: v for k, v in before.get(node, {}).items() if k not in theirs.get(node, {})}
        api.apply(node, f"uid-{node}", ours)
    api.strict = True

    for steps, order in zip(lives, arrivals, strict=False):
        try:
            live(api, policies, readings, order=order, steps=steps)
        except KilledError:
            continue
    last = live(api, policies, readings, order=arrivals[-1], steps=None)

    for node in NODES:
        expected = {**wanted[node], **theirs.get(node, {})}  # labels of other owners stay
        assert api.nodes[node].labels == expected
    again = len(last.writes)
    last.act()
    assert len(last.writes) == again, "a second decision must have nothing to do"


class CheckedServer:
    """The API server, with a check that no correct label is ever removed."""

    def __init__(self, api, wanted):
        self._api = api
        self._wanted = wanted
        self.strict = False

    def __getattr__(self, name):
        return getattr(self._api, name)

    def apply(self, name, uid, given_labels):
        before = dict(self._api.nodes[name].labels)
        self._api.apply(name, uid, given_labels)
        after = self._api.nodes[name].labels
        if self.strict:
            right = {k: v for k, v in self._wanted[name].items() if before.get(k) == v}
            assert right.items() <= after.items(), f"right labels went from {name}"


@pytest.mark.parametrize("killed_after", range(14))
def test_labels_converge_after_a_kill_at_each_step_of_the_first_run(policies, killed_after):
    readings = {
        "node-a": {"health": 2.0, "load": 1.0},
        "node-b": {"health": 0.0, "load": 2.0},
        "node-c": {"health": 1.0, "load": None},
    }
    wanted = right_labels(policies, readings)
    api = ApplyServer()
    for node in NODES:
        api.add(node)
    try:
        live(api, policies, readings, order=range(6), steps=killed_after)
    except KilledError:
        live(api, policies, readings, order=range(6), steps=None)
    assert {name: node.labels for name, node in api.nodes.items()} == wanted
    assert wanted == {
        "node-a": {"demo": "violating", DEMO_KEY: "low"},
        "node-b": {"demo": "violating", DEMO_KEY: "high"},
        "node-c": {DEMO_KEY: "low"},
    }
    assert api.writes == len(NODES), "one write per node, however many restarts"


def test_no_label_is_written_while_reports_are_pending(policies):
    api = ApplyServer()
    for node in NODES:
        api.add(node)
        api.apply(node, f"uid-{node}", {"demo": "violating"})
    life = EvaluatorRun(api, policies, None)
    for kind in ("policies", "nodes", "pods"):
        life.hear_of(kind)
    life.hear_from("node-a", {"health": 0.0, "load": 0.0})
    life.hear_from("node-b", {"health": 0.0, "load": 0.0})
    assert life.writes == []
    assert list(life.decider.waiting_for) == ["the first report of 1 node"]
    life.hear_from("node-c", {"health": 2.0, "load": 0.0})
    assert not life.decider.waiting_for
    assert [apply.node for apply in life.writes] == ["node-a", "node-b", "node-c"]
    assert {name: node.labels for name, node in api.nodes.items()} == {
        "node-a": {},
        "node-b": {},
        "node-c": {"demo": "violating", DEMO_KEY: "low"},
    }
