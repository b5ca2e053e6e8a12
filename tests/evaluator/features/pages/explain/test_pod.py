"""Why a pod waits: its policy, what refuses it on each node, and whether Plimsoll turns it away."""

import json
from dataclasses import replace
from functools import partial

import pytest
from msgspec import UNSET, to_builtins

from evaluator.core.model.feasibility import is_feasible, obstacles
from evaluator.core.model.names import POLICY_LABEL, PolicyKey
from evaluator.core.model.node import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus, Taint
from evaluator.core.model.pod import Pod, PodCondition, PodMeta, PodSpec, PodStatus, SchedulingGate
from evaluator.core.placement.explain import placed_on
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.features.pages.explain.pod import explain_pod
from evaluator.features.pages.explain.pod_summary import PodContext
from plimsoll.steps import finished
from tests.evaluator.core.placement.worlds import World
from wire.codec import Delta

NOW = 1000.0
KEY = PolicyKey("ns", "demo")
READY = NodeStatus([NodeCondition("Ready", "True")])
SCHEDULER = "0/3 nodes are available: 2 violating demo: m GreaterThan 5, 1 untolerated taint"
UNREACHABLE = 'Post "https://10.0.0.7:9001/scheduler/filter": dial tcp 10.0.0.7:9001: connect: connection refused'


def node(name, **spec):
    return Node(NodeMeta(name), NodeSpec(**spec), READY)


def pod(
    policy="demo",
    *,
    requests=True,
    phase="Pending",
    nominated=None,
    said=("Unschedulable", SCHEDULER),
    **spec,
):
    """A pod; `said`: reason and message of kube-scheduler's condition, None for no attempt."""
    labels = {POLICY_LABEL: policy} if policy else {}
    conditions = [PodCondition("PodScheduled", "False", *said)] if said else []
    meta = PodMeta(name="web", namespace="ns", labels=labels)
    status = PodStatus(phase, conditions, nominated)
    return Pod(meta, PodSpec(requests_extender=requests, **spec), status)


@pytest.fixture
def nodes():
    """`tainted` is not feasible for the pods here."""
    taint = Taint("gpu", "", "NoSchedule")
    made = [node("hot"), node("warm"), node("tainted", taints=[taint])]
    return {one.metadata.name: one for one in made}


@pytest.fixture
def explained(parsed, rule, nodes):
    def run(subject, *, hot=9.0, warm=7.0, observed="", waiting=(), scorers=None, silent=()):
        policy = parsed(
            dontschedule=[rule("m GreaterThan 5")], scheduleonmetric=[rule("m LessThan 0")]
        )
        policy = replace(policy, observed_by=observed)
        store = Store(stale_after=30.0, started=NOW if silent else 0.0)
        store.subscribe(["m"])
        for name, value in (("hot", hot), ("warm", warm), ("tainted", 1.0)):
            if name not in silent:
                store.report(name, Delta({"m": value}), NOW)
        decisions = decide([policy], nodes, store, now=NOW)
        name = (subject.metadata.labels or {}).get(POLICY_LABEL)
        decision = decisions.policies.get(PolicyKey("ns", name)) if name else None
        context = PodContext(
            decisions, nodes, decision, scorers or {}, ["overload risk 0.4"], waiting
        )
        found = finished(explain_pod(subject, context, store, now=NOW + 2))
        page = to_builtins(found.head) | {"nodes": to_builtins(dict(found.nodes))}
        return json.loads(json.dumps(page, allow_nan=False))

    return run


def test_pod_that_its_policy_refuses_everywhere_is_turned_away(explained):
    page = explained(pod())
    assert (page["turnedAwayByPlimsoll"], page["summary"]) == (
        True,
        "policy ns/demo refuses 2 of 2 feasible nodes",
    )
    assert page["policy"] == {
        "name": "ns/demo",
        "applies": True,
        "mode": "enforce",
        "problems": [],
        "warnings": [],
    }
    assert (page["schedulerReason"], page["schedulerMessage"]) == ("Unschedulable", SCHEDULER)
    assert page["nodeCounts"] == {
        "total": 3,
        "notFeasible": 1,
        "refusedByPolicy": 2,
        "awaitingReadings": 0,
        "refusedByScorers": 0,
        "left": 0,
    }


def test_nodes_have_no_verdict_of_a_policy_that_does_not_apply(explained):
    page = explained(pod(requests=False))
    assert not page["policy"]["applies"]
    assert "does not request telemetry/scheduling" in page["policy"]["problem"]
    assert page["nodes"]["hot"] == {"obstacles": [], "refused": None, "rules": []}


def test_each_node_has_the_rule_with_value_target_age_and_obstacles(explained):
    found = explained(pod())["nodes"]
    assert found["hot"] == {
        "obstacles": [],
        "refused": "violating demo: m GreaterThan 5",
        "rules": [
            {
                "rule": "m GreaterThan 5",
                "target": "5",
                "targetValue": 5,
                "value": 9.0,
                "ageSeconds": 2.0,
                "state": "fresh",
                "violated": True,
            }
        ],
        "score": 8,
    }
    assert found["tainted"]["obstacles"] == ["taint gpu:NoSchedule is not tolerated"]
    assert found["tainted"]["refused"] is None
    assert found["tainted"]["rules"][0]["violated"] is False


def test_pod_with_a_node_left_is_not_turned_away(explained):
    page = explained(pod(), warm=1.0)
    assert (page["turnedAwayByPlimsoll"], page["summary"]) == (
        False,
        "policy ns/demo permits it on 1 of 2 feasible nodes",
    )


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        (pod(requests=False), "policy demo has no effect on where this pod is placed"),
        (pod("demoo"), "policy demoo does not exist in namespace ns"),
    ],
)
def test_policy_that_does_not_apply_turns_nothing_away_and_the_reason_is_named(
    explained, subject, says
):
    page = explained(subject)
    assert page["turnedAwayByPlimsoll"] is False
    assert page["policy"]["applies"] is False
    assert page["policy"]["problem"].startswith(says)
    assert page["summary"].startswith(says)
    assert all(one["refused"] is None for one in page["nodes"].values())


def test_pod_without_a_policy_is_permitted_even_before_the_evaluator_is_ready(explained):
    page = explained(pod(""), waiting=["policies"])
    assert (page["policy"], page["turnedAwayByPlimsoll"]) == (None, False)
    assert page["summary"].startswith("it names no policy; Plimsoll permits it on 2 of 2")


def test_observed_policy_would_refuse_but_turns_nothing_away(explained):
    page = explained(pod(), observed="--observe")
    assert page["turnedAwayByPlimsoll"] is False
    assert page["policy"]["mode"] == "observe"
    assert page["nodes"]["hot"]["refused"] is None
    assert page["nodes"]["hot"]["wouldRefuse"] == "violating demo: m GreaterThan 5"


def test_evaluator_that_is_not_ready_does_not_tell(explained):
    page = explained(pod(), waiting=["the first report of 3 nodes"])
    assert page["turnedAwayByPlimsoll"] is None
    assert "the first report of 3 nodes" in page["summary"]


def test_awaited_reading_turns_the_pod_away_for_now(explained):
    page = explained(pod(), silent=("hot", "warm"))
    assert (page["turnedAwayByPlimsoll"], page["summary"]) == (
        True,
        "policy ns/demo awaits the first readings of 2 of 2 feasible nodes",
    )
    assert page["nodes"]["hot"]["awaited"] is True


def test_scorers_that_refuse_the_rest_turn_the_pod_away(explained):
    page = explained(pod(), warm=1.0, scorers={"warm": ["safe"]})
    assert (page["turnedAwayByPlimsoll"], page["summary"]) == (
        True,
        "policy ns/demo refuses 1 and scorers refuse 1 of 2 feasible nodes",
    )


ERROR = "kube-scheduler's last attempt ended in an error, not in a refusal: see its message"


@pytest.mark.parametrize(
    ("said", "turned_away", "summary"),
    [
        (
            ("SchedulerError", UNREACHABLE),
            None,
            f"{ERROR}; policy ns/demo would refuse 2 of 2 feasible nodes",
        ),
        (
            ("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu."),
            False,
            "kube-scheduler reports other reasons, none of Plimsoll; "
            "policy ns/demo would refuse 2 of 2 feasible nodes",
        ),
        (
            ("Unschedulable", "0/3 nodes are available: 3 violating other: m GreaterThan 5."),
            False,
            "kube-scheduler reports other reasons, none of Plimsoll; "
            "policy ns/demo would refuse 2 of 2 feasible nodes",
        ),
        (
            None,
            None,
            "kube-scheduler has reported no attempt; "
            "policy ns/demo would refuse 2 of 2 feasible nodes",
        ),
    ],
    ids=["error", "own reason", "another policy", "no attempt"],
)
def test_refusal_that_kube_scheduler_does_not_report_is_not_claimed(
    explained, said, turned_away, summary
):
    page = explained(pod(said=said))
    assert (page["turnedAwayByPlimsoll"], page["summary"]) == (turned_away, summary)
    assert (page["schedulerReason"], page["schedulerMessage"]) == (said or (None, None))


@pytest.mark.parametrize(
    ("observed", "permitted"),
    [
        ("--observe", "policy ns/demo is only observed; Plimsoll permits it"),
        ("", "policy ns/demo permits it"),
    ],
)
def test_error_of_kube_scheduler_is_named_even_where_the_policy_permits_the_pod(
    explained, observed, permitted
):
    page = explained(pod(said=("SchedulerError", UNREACHABLE)), hot=1, warm=1, observed=observed)
    assert page["turnedAwayByPlimsoll"] is None
    assert page["summary"] == f"{ERROR}; {permitted} on 2 of 2 feasible nodes"


def test_error_for_a_pod_that_does_not_request_the_extender_is_not_ours(explained):
    page = explained(pod("", requests=False, said=("SchedulerError", "volume not found")))
    assert page["turnedAwayByPlimsoll"] is False


def test_refusal_of_a_scorer_counts_if_kube_scheduler_reports_it(explained):
    scorers = {"hot": ["safe"], "warm": ["safe"]}
    said = ("Unschedulable", "0/3 nodes are available: 2 overload risk 0.4, 1 untolerated taint.")
    page = explained(pod(said=said), hot=1.0, warm=1.0, scorers=scorers)
    assert (page["turnedAwayByPlimsoll"], page["summary"]) == (
        True,
        "scorers refuse 2 of 2 feasible nodes",
    )
    said = ("Unschedulable", "0/3 nodes are available: 3 Insufficient memory.")
    page = explained(pod(said=said), hot=1.0, warm=1.0, scorers=scorers)
    assert page["turnedAwayByPlimsoll"] is False


FULL = ("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")


def test_nomination_to_a_node_that_the_policy_refuses_is_named(explained):
    """Even where kube-scheduler asked for no filter, since the nodes were full, and another node is permitted."""
    page = explained(pod(said=FULL, nominated="hot"), warm=1.0)
    assert page["turnedAwayByPlimsoll"] is True
    assert page["nominatedNode"] == "hot"
    assert page["summary"].startswith("nominated to hot, which policy ns/demo refuses: ")
    page = explained(pod(said=FULL, nominated="hot"), hot=1.0, scorers={"hot": ["safe"]})
    assert page["summary"].startswith("nominated to hot, which scorers refuse: ")


@pytest.mark.parametrize(
    ("subject", "hot", "observed"),
    [
        (pod(said=FULL, nominated="hot"), 1.0, ""),
        (pod(said=FULL, nominated="hot"), 9.0, "--observe"),
        (pod(said=FULL, nominated="gone"), 9.0, ""),
        (pod(nominated="hot", node_name="hot"), 9.0, ""),
    ],
    ids=["permitted", "observed", "unknown node", "bound"],
)
def test_other_nomination_turns_nothing_away(explained, subject, hot, observed):
    page = explained(subject, hot=hot, warm=1.0, observed=observed)
    assert page["turnedAwayByPlimsoll"] is False
    assert "nominated" not in page["summary"]


def test_gate_is_named(explained):
    page = explained(pod(scheduling_gates=[SchedulingGate("example.com/quota")]))
    assert page["turnedAwayByPlimsoll"] is False
    assert page["summary"] == "it is held by 1 scheduling gate: example.com/quota"
    assert page["gates"] == ["example.com/quota"]


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        (pod(node_name="hot", phase="Running"), "it is bound to hot"),
        (pod(node_name="hot", phase="Succeeded"), "it has finished: Succeeded"),
        (pod(node_selector={"disk": "ssd"}), "no node fits: see the obstacles of each node"),
    ],
)
def test_pod_that_waits_for_nothing_of_ours_is_not_turned_away(explained, subject, says):
    page = explained(subject)
    assert (page["turnedAwayByPlimsoll"], page["summary"]) == (False, says)


def test_obstacles_are_named_and_agree_with_feasibility():
    subject = pod(node_selector={"disk": "ssd"})
    cases = [
        node("a", unschedulable=True),
        Node(NodeMeta("b"), NodeSpec(), NodeStatus([NodeCondition("Ready", "Unknown")])),
        Node(NodeMeta("c", labels={"disk": "ssd"}), NodeSpec(), READY),
        node("d", taints=[Taint("k", "v", "NoExecute"), Taint("soft", "", "PreferNoSchedule")]),
    ]
    assert [obstacles(one, subject) for one in cases] == [
        ["the node is cordoned", "nodeSelector disk=ssd does not match"],
        ["the node is unreachable", "nodeSelector disk=ssd does not match"],
        [],
        ["taint k=v:NoExecute is not tolerated", "nodeSelector disk=ssd does not match"],
    ]
    assert [is_feasible(one, subject) for one in cases] == [False, False, True, False]


def test_pods_placed_since_the_reading_are_shown_on_their_node(nodes):
    """As /explain, the page and the plugin show them."""
    world = World([6.0, 2.0], most=5)
    for uid in ("p", "q", "r"):
        world.bind(uid, "n01", cpu=400)
    counted = world.counted
    context = PodContext(
        world.decisions,
        {name: node(name) for name in world.nodes},
        counted.decision,
        placed=partial(placed_on, world.placements.measures, counted),
    )
    found = finished(explain_pod(pod(), context, world.store, now=world.now))
    entries = dict(found.nodes)
    (placed,) = entries["n01"].placed
    assert placed.metric == "node_cpu_used_cores"
    assert placed.text.startswith("3 pods placed since this reading, counted as ")
    assert entries["n00"].placed is UNSET


@pytest.mark.parametrize(
    ("message", "decide"),
    [
        ("0/3 nodes are available: 2 Insufficient cpu, 1 untolerated taint", "cpu on 2 nodes"),
        ("0/3 nodes: 1 Insufficient example.com/x.", "example.com/x. on 1 node"),
        ("0/3 nodes: 2 Insufficient telemetry/scheduling", None),
        (SCHEDULER, None),
        ("9" * 5000 + " Insufficient cpu", None),
    ],
)
def test_requests_decide_where_they_leave_no_room(explained, message, decide):
    found = explained(pod(said=("Unschedulable", message))).get("requestsDecide")
    assert (found is None) if decide is None else (decide in found)
