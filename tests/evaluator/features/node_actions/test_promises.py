"""The promises of taints, under any order of readings, writes, restarts and writes of others."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.cache.cluster import decode_node
from evaluator.core.policy import parse
from evaluator.core.policy.decide import Decisions, decide
from evaluator.core.readings.store import Store
from evaluator.features.node_actions import writes
from evaluator.features.node_actions.limit import NodeLimit
from evaluator.features.node_actions.names import DOMAIN
from evaluator.features.node_actions.plan import planning
from evaluator.features.node_actions.types import ActionPlan, ActionSettings, Observed
from evaluator.features.registry import VOCABULARY
from plimsoll.steps import finished
from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.writes.patch import json_patch
from tests.evaluator.conftest import make_rule, make_tas
from tests.examples import examples
from wire.codec import Delta

NODES = [f"n{number}" for number in range(8)]
FOREIGN = {"key": "example.com/gpu", "effect": "NoSchedule", "timeAdded": "2026-11-22T10:00:00Z"}
LIMITS = {"hard": 2, "harder": 3}
MOST = 4
SETTINGS = ActionSettings(taints=True, no_execute=True, most=NodeLimit(MOST))


def policy(name, metric, effect, limit=""):
    made = make_tas(name, deschedule=[make_rule(f"{metric} Equals 1")])
    made["metadata"]["annotations"] = {
        "plimsoll.io/actions": "taint",
        "plimsoll.io/taint-effect": effect,
        **({"plimsoll.io/max-nodes": limit} if limit else {}),
    }
    return parse.parse(made, vocabulary=VOCABULARY)


POLICIES = [
    policy("hard", "a", "NoSchedule", "2"),
    policy("harder", "b", "NoExecute", "3"),
    policy("soft", "b", "PreferNoSchedule"),
]


class Cluster:
    """Nodes on the API server, what the evaluator's watch has seen of them, and its writes in flight."""

    def __init__(self):
        self.actual = {
            node: {"metadata": {"name": node, "uid": node, "resourceVersion": "1"}, "spec": {}}
            for node in NODES
        }
        self.seen = {}
        self.flying = {}
        self.patches = 0
        self.store = Store(stale_after=1e9, started=-1e9)
        self.store.subscribe({"a", "b"})
        self.values = {node: {"a": 0.0, "b": 0.0} for node in NODES}
        self.clock = 0.0
        self.restart()

    def restart(self):
        """A new process: it lists the nodes, and knows nothing else."""
        self.decisions, self.plan = Decisions(), ActionPlan()
        self.seen = {node: self.decoded(node) for node in NODES}
        self.flying = {}
        self.decide()

    def decoded(self, node):
        return decode_node(json.dumps(self.actual[node]))

    def decide(self):
        self.clock += 1.0
        for node, values in self.values.items():
            self.store.report(node, Delta(values, set()), self.clock)
        self.decisions = decide(POLICIES, NODES, self.store, now=self.clock, before=self.decisions)
        own = {node: writes.own_taints(seen, (DOMAIN,)) for node, seen in self.seen.items()}
        for node, patch in self.flying.items():
            own[node] |= patch.adds
        observed = Observed({node: found for node, found in own.items() if found})
        self.plan = finished(
            planning(self.decisions, observed, self.plan, SETTINGS, now=self.clock)
        )

    def change(self, node, metric):
        self.values[node][metric] = 1.0 - self.values[node][metric]
        self.decide()

    def send(self, node, _metric=""):
        wanted = self.plan.taints.get(node, {})
        patch = writes.compare_taints(self.seen[node], wanted, (DOMAIN,))
        if node not in self.flying and patch:
            self.flying[node] = patch
            self.patches += 1
        return patch

    def land(self, node, _metric=""):
        patch = self.flying.pop(node, None)
        if patch:
            try:
                self.actual[node] = json_patch(self.actual[node], list(patch.operations))
                self.bump(node)
            except ApiError:  # the node has changed since
                pass

    def observe(self, node, _metric=""):
        self.seen[node] = self.decoded(node)
        self.decide()

    def lose_leader(self, node, _metric=""):
        """kill -9: what is in flight may still arrive, before the next process lists the nodes."""
        self.land(node)
        self.restart()

    def interfere(self, node, _metric=""):
        spec = self.actual[node]["spec"]
        others = [taint for taint in spec.get("taints", []) if taint != FOREIGN]
        found = len(others) < len(spec.get("taints", []))
        spec["taints"] = others if found else [FOREIGN, *others]
        self.bump(node)

    def bump(self, node):
        meta = self.actual[node]["metadata"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)

    def tainted(self, effects=("NoSchedule", "NoExecute"), name=""):
        return {
            node
            for node in NODES
            for taint in self.actual[node]["spec"].get("taints", [])
            if taint["key"].startswith(f"{DOMAIN}ns.{name}")
            and taint["effect"] in effects
            and (not name or taint["key"] == f"{DOMAIN}ns.{name}")
        }

    def settle(self):
        for _ in range(4):
            for node in NODES:
                self.observe(node)
                self.send(node)
                self.land(node)
        for node in NODES:
            self.observe(node)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["change", "change", "send", "send", "land", "observe", "interfere", "lose_leader"]
        ),
        st.sampled_from(NODES),
        st.sampled_from(["a", "b"]),
    ),
    max_size=60,
)


def foreign(cluster):
    return {
        node: [t for t in cluster.actual[node]["spec"].get("taints", []) if t == FOREIGN]
        for node in NODES
    }


@settings(max_examples=examples(50), deadline=None)
@given(EVENTS)
def test_limits_hold_and_foreign_taints_stay_under_any_order_of_events(events):
    cluster = Cluster()
    for event, node, metric in events:
        before = foreign(cluster)
        getattr(cluster, event)(node, metric)
        if event != "interfere":
            assert foreign(cluster) == before
        for name, limit in LIMITS.items():
            assert len(cluster.tainted(name=name)) <= limit
        assert len(cluster.tainted()) <= MOST


@settings(max_examples=examples(20), deadline=None)
@given(EVENTS)
def test_every_history_converges_and_then_nothing_is_written(events):
    cluster = Cluster()
    for event, node, metric in events:
        getattr(cluster, event)(node, metric)
    cluster.settle()
    written, plan = cluster.patches, cluster.plan
    cluster.decide()
    assert cluster.plan.taints is plan.taints
    assert not any(cluster.send(node) for node in NODES)
    assert cluster.patches == written
    violating = {node for node in NODES if cluster.values[node]["a"]}
    hard = cluster.tainted(name="hard")
    assert hard <= violating
    assert len(hard) == min(2, len(violating)) or len(cluster.tainted()) == MOST
    soft = {node for node in NODES if cluster.values[node]["b"]}
    assert cluster.tainted(["PreferNoSchedule"]) == (soft if len(soft) < len(NODES) else set())


@settings(max_examples=examples(10), deadline=None)
@given(EVENTS)
def test_restart_after_convergence_changes_nothing(events):
    cluster = Cluster()
    for event, node, metric in events:
        getattr(cluster, event)(node, metric)
    cluster.settle()
    written = cluster.patches
    cluster.restart()
    cluster.settle()
    assert cluster.patches == written


def test_all_taints_of_a_node_are_in_one_patch():
    cluster = Cluster()
    for metric in ("a", "b"):
        cluster.change("n3", metric)
    patch = cluster.send("n3")
    assert sorted(patch.adds) == [
        ("plimsoll.io/ns.hard", "NoSchedule"),
        ("plimsoll.io/ns.harder", "NoExecute"),
        ("plimsoll.io/ns.harder", "NoSchedule"),
        ("plimsoll.io/ns.soft", "PreferNoSchedule"),
    ]
    cluster.land("n3")
    assert len(cluster.actual["n3"]["spec"]["taints"]) == 4
    cluster.observe("n3")
    assert cluster.send("n3") is None


def test_longest_in_violation_comes_first_then_the_name():
    cluster = Cluster()
    for node in ("n7", "n5", "n1"):
        cluster.change(node, "a")
    assert cluster.plan.policies[POLICIES[0].key].choice.held_back == 1
    cluster.settle()
    assert cluster.tainted(name="hard") == {"n7", "n5"}
    cluster.change("n7", "a")
    cluster.settle()
    assert cluster.tainted(name="hard") == {"n5", "n1"}


def test_taint_that_every_node_would_have_is_not_set():
    cluster = Cluster()
    for node in NODES[:-1]:
        cluster.change(node, "b")
    cluster.settle()
    assert len(cluster.tainted(["PreferNoSchedule"])) == 7
    cluster.change(NODES[-1], "b")
    cluster.settle()
    assert not cluster.tainted(["PreferNoSchedule"])


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_taint_of_ours_with_another_value_is_replaced(effect):
    cluster = Cluster()
    strange = {"key": "plimsoll.io/ns.soft", "effect": effect, "value": "x"}
    cluster.actual["n1"]["spec"]["taints"] = [FOREIGN, strange]
    cluster.settle()
    assert cluster.actual["n1"]["spec"]["taints"] == [FOREIGN]
