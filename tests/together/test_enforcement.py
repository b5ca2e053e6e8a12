"""Observed policies: what enforcing them would change, in the status and in /explain, and nothing else."""

import pytest
from msgspec import to_builtins

from evaluator.core.cache.policy_pods import PodsByPolicy
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import ENFORCEMENT, POLICY_LABEL, PolicyKey
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus
from evaluator.core.model.pod import Owner, Pod, PodMeta, PodSpec
from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import oversized, parse
from evaluator.core.readings.store import Store
from evaluator.features.evictions import plan as evictions
from evaluator.features.evictions.history import EvictionHistory
from evaluator.features.evictions.plan import ClusterView, EvictionEffects, EvictionRate
from evaluator.features.extender.feature import RefusedNodes
from evaluator.features.labels.feature import LabelledNodes
from evaluator.features.node_actions.report import ActionEffects
from evaluator.features.pages.explain.policy import explain
from evaluator.features.registry import VOCABULARY
from evaluator.features.requeue.plan import newly_allowed
from evaluator.features.status import plan as policy_events
from evaluator.features.status.plan import statuses
from plimsoll.steps import finished
from wire.codec import Delta

NOW = 1000.0
KEY = PolicyKey("ns", "demo")
OWNER = Owner("ReplicaSet", "web", "uid-of-web")
NODES = ("a", "b", "c")


@pytest.fixture
def demo(tas, rule):
    """The policy, with this value of the annotation; no annotation if empty."""

    def make(mode="", name="demo"):
        obj = tas(
            name,
            dontschedule=[rule("m GreaterThan 0")],
            deschedule=[rule("m GreaterThan 1")],
            labeling=[rule("m GreaterThan 1", "hot=yes")],
        )
        obj["metadata"]["annotations"] = {ENFORCEMENT: mode} if mode else None
        return obj

    return make


@pytest.fixture
def store():
    made = Store(stale_after=30.0, started=0.0)
    made.subscribe(["m"])
    for node, value in zip(NODES, (0.0, 1.0, 2.0), strict=True):
        made.report(node, Delta({"m": value}), NOW)
    return made


@pytest.fixture
def effects():
    """Two pods of the policy on the violating node, one of which has no other node."""
    running = PodsByPolicy(lambda _pod: True)
    ready = NodeStatus([NodeCondition("Ready", "True")])
    feasible = FeasibleNodes({name: Node(NodeMeta(name), NodeSpec(), ready) for name in NODES})
    for name, selector in (("free", None), ("stuck", {"only": "c"})):
        meta = PodMeta(name=name, namespace="ns", labels={POLICY_LABEL: "demo"}, controller=OWNER)
        pod = Pod(meta, PodSpec(node_name="c", node_selector=selector))
        running.change(None, pod)
        feasible.change_pod(None, pod)
    evictions = EvictionEffects(
        ClusterView(running=running, feasible_nodes=feasible), evicting=False
    )
    return (RefusedNodes(), LabelledNodes(), ActionEffects(), evictions)


def status_of(decisions, effects):
    for effect in effects:
        for _ in effect.catching_up(decisions):
            pass
    found = dict(statuses(decisions, effects))[KEY]
    return found, found.conditions[-1]


def test_status_names_what_enforcement_would_change(demo, store, effects):
    decisions = decide([parse(demo("observe"))], NODES, store, now=NOW)
    status, enforced = status_of(decisions, effects)
    assert (enforced.type, enforced.status, enforced.reason) == ("Enforced", "False", "Observed")
    assert enforced.message == (
        "only observed, by the annotation plimsoll.io/enforcement; would refuse new pods on 2 of 3 nodes (b, c); "
        "label 1 of 3 nodes (c); evict 1 pod (ns/free) if --evict is set"
    )
    assert status.body(lambda _condition: "")["enforcement"] == "Observe"
    assert (status.compliance, status.message) == (
        "Violated",
        "only observed; violated on 2 of 3 nodes (b, c)",
    )


def test_status_of_an_enforced_policy_says_which_labels_observing_takes_off(demo, store, effects):
    status, enforced = status_of(decide([parse(demo())], NODES, store, now=NOW), effects)
    assert (enforced.status, enforced.reason) == ("True", "Enforced")
    assert enforced.message == (
        "the policy is enforced; when it is observed or deleted, its labels are taken off 1 of 3 nodes (c)"
    )
    assert status.body(lambda _condition: "")["enforcement"] == "Enforce"


def test_violating_nothing_would_change_nothing(demo, store, effects):
    store.report("b", Delta({"m": 0.0}), NOW)
    store.report("c", Delta({"m": 0.0}), NOW)
    _, enforced = status_of(decide([parse(demo("observe"))], NODES, store, now=NOW), effects)
    assert enforced.message.endswith("; would change nothing now")


@pytest.mark.parametrize("mode", ["Observe", "off", " "])
def test_unknown_annotation_is_an_error_and_observes(demo, mode):
    policy = parse(demo(mode))
    assert policy.observed
    assert policy.problems == (
        f"annotation plimsoll.io/enforcement: {mode!r} is neither enforce nor observe: the policy is only observed",
    )


def test_flag_observes_every_policy_and_is_named_as_the_reason(demo, store, effects):
    policies = [parse(demo("enforce"), observe=True), oversized(demo(), 1 << 20, observe=True)]
    assert {policy.observed_by for policy in policies} == {"--observe"}
    _, enforced = status_of(decide(policies[:1], NODES, store, now=NOW), effects)
    assert enforced.message.startswith("only observed, by --observe; would refuse")


def test_observed_policy_is_decided_but_sets_no_label_and_evicts_no_pod(demo, store, effects):
    decisions = decide([parse(demo("observe"))], NODES, store, now=NOW)
    assert set(decisions.policies[KEY].deschedule) == {"c"}
    assert decisions.labels == {}
    assert decisions.enforced == {}
    cluster, rate = effects[-1]._cluster, EvictionRate(1, 9)
    assert not [*evictions.plan(decisions, cluster, EvictionHistory(), rate=rate, now=NOW)]


def test_observed_policy_displaces_no_label_of_an_enforced_one(demo, store, tas, rule):
    def labelled(name, value, annotations=None):
        obj = tas(name, labeling=[rule("m GreaterThan 1", f"telemetry.io/x={value}")])
        obj["metadata"]["annotations"] = annotations
        return parse(obj)

    first = labelled("demo", "one", {ENFORCEMENT: "observe"})
    both = decide([first, labelled("other", "two")], NODES, store, now=NOW)
    alone = decide([labelled("other", "two")], NODES, store, now=NOW)
    assert both.labels == alone.labels


def test_switching_to_observe_takes_labels_off_and_readmits_nodes(demo, store):
    before = decide([parse(demo())], NODES, store, now=NOW)
    after = decide([parse(demo("observe"))], NODES, store, now=NOW, before=before)
    assert (set(before.labels), set(after.labels)) == ({"c"}, set())
    assert newly_allowed(before, after)[KEY].names == ("b", "c")
    back = decide([parse(demo())], NODES, store, now=NOW, before=after)
    assert back.labels == before.labels


def test_explain_has_the_mode_and_the_names(demo, store, effects):
    decisions = decide([parse(demo("observe"))], NODES, store, now=NOW)
    for effect in effects:
        for _ in effect.catching_up(decisions):
            pass
    found = finished(explain(decisions, KEY, store, now=NOW, effects=effects))
    assert to_builtins(found.head.enforcement) == {
        "mode": "observe",
        "by": "the annotation plimsoll.io/enforcement",
        "wouldChange": {
            "nodesRefused": ["b", "c"],
            "nodesLabelled": ["c"],
            "podsEvicted": ["ns/free"],
        },
        "evict": False,
    }


def test_taints_and_conditions_are_among_the_changes(demo, store, effects):
    obj = demo("observe")
    obj["metadata"]["annotations"] |= {
        "plimsoll.io/actions": "taint,condition",
        "plimsoll.io/taint-effect": "NoSchedule",
    }
    decisions = decide([parse(obj, vocabulary=VOCABULARY)], NODES, store, now=NOW)
    _, enforced = status_of(decisions, effects)
    assert (
        "; taint 1 of 3 nodes (b) with NoSchedule (1 more over the limit of 20%); "
        "set plimsoll.io/Demo on 2 of 3 nodes (b, c); evict"
    ) in enforced.message
    would = finished(explain(decisions, KEY, store, now=NOW, effects=effects)).head.enforcement
    assert would.would_change["nodesTainted"] == ["b"]
    assert would.would_change["nodesWithCondition"] == ["b", "c"]


def test_events_say_that_the_policy_is_only_observed(demo, store):
    decision = decide([parse(demo("observe"))], NODES, store, now=NOW).policies[KEY]
    nothing = policy_events.ReportedState()
    said = policy_events.diff(nothing, policy_events.reported_state(decision))
    assert {spec.message.partition(":")[0] for spec in said} == {
        "dontschedule is violated (only observed)",
        "deschedule is violated (only observed)",
        "labeling is violated (only observed)",
    }
