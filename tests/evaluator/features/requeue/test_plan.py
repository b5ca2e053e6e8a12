"""Which pods are requeued, when, and how often."""

import itertools

import numpy as np
import pytest

from evaluator.core.cache.cluster import decode_node, decode_pod
from evaluator.core.model.feasibility import FeasibleNodes
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import REQUEUED_AT
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.features.requeue import plan as requeue
from evaluator.features.requeue.plan import ReadmittedNodes, RequeueTimings

DEMO = PolicyKey("ns", "demo")
PACE = RequeueTimings(first=1.0, longest=8.0, settle=0.0, memory=300.0)
TEXT = "0/2 nodes are available: 2 violating demo: heat GreaterThan 50. preemption: none"


def decisions(*refused, unreported=(), policy=DEMO):
    decision = Decision(
        Policy(policy),
        {StrategyName.DONTSCHEDULE: dict.fromkeys(refused, "violating demo: heat GreaterThan 50")},
        unreported=frozenset(unreported),
    )
    return Decisions(MetricTable(("a", "b"), {}), {policy: decision})


def make_pod(name="web", *, text=TEXT, reason="Unschedulable", policy="demo", spec="{}", more=""):
    return decode_pod(
        f'{{"metadata": {{"name": "{name}", "namespace": "ns", "uid": "uid-{name}",'
        f' "labels": {{"telemetry-policy": "{policy}"}} {more}}},'
        f' "spec": {spec}, "status": {{"phase": "Pending", "conditions": [{{"type": "PodScheduled",'
        f' "status": "False", "reason": "{reason}", "message": "{text}"}}]}}}}'
    )


def make_node(name, *, ready=True):
    status = f'{{"conditions": [{{"type": "Ready", "status": "{ready}"}}]}}'
    return decode_node(
        f'{{"metadata": {{"name": "{name}", "labels": {{"name": "{name}"}}}}, "status": {status}}}'
    )


NODES = {name: make_node(name) for name in ("a", "b")}


def places_of(nodes, pods):
    """Feasible nodes, completely known."""
    feasible_nodes = FeasibleNodes(nodes)
    for pod in pods:
        feasible_nodes.for_pod(pod)
    for _ in feasible_nodes.catching_up():
        pass
    return feasible_nodes


class Queue:
    """The state of the requeue controller over time, without its I/O."""

    def __init__(self, *pods):
        self.pods = list(pods)
        self.refused = {}
        self.readmitted_by_policy = {}
        self.decisions = decisions("a", "b")
        self.nodes = dict(NODES)
        self.at(0.0)

    def decide(self, new, now):
        more = requeue.newly_allowed(self.decisions, new)
        self.readmitted_by_policy = requeue.remember(
            self.readmitted_by_policy, more, now=now, memory=PACE.memory
        )
        self.decisions = new

    def at(self, now):
        """The names of the pods that are requeued now."""
        self.refused = requeue.find_rejected(self.pods, self.refused, now)
        self.readmitted_by_policy = requeue.remember(
            self.readmitted_by_policy, {}, now=now, memory=PACE.memory
        )
        feasible_nodes = places_of(self.nodes, self.pods)
        found = []
        for key, nodes in self.readmitted_by_policy.items():
            of_policy = [one for one in self.refused.values() if one.policy == key]
            decision = self.decisions.policies.get(key)
            found += requeue.requeue_candidates(of_policy, nodes, decision, feasible_nodes, PACE)
        plan = requeue.plan(found, timings=PACE, now=now)
        for rejected in plan.due:
            self.refused[rejected.pod.metadata.uid] = rejected.after_requeue(now)
        self.again = plan.again
        return [rejected.pod.metadata.name for rejected in plan.due]


def test_readmitted_node_requeues_its_pod_once():
    queue = Queue(make_pod())
    queue.decide(decisions("b"), 10.0)
    assert queue.at(10.0) == ["web"]
    assert queue.at(10.1) == []
    assert queue.at(200.0) == [], "rejected again for the same decisions"
    assert queue.again is None


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(text="0/2 nodes are available: 2 Insufficient cpu."),
        make_pod(text="0/2 nodes are available: 2 violating other: heat GreaterThan 50."),
        make_pod(reason="SchedulingGated"),
        make_pod(reason="SchedulerError"),
        make_pod(spec='{"nodeName": "a"}'),
        make_pod(more=', "deletionTimestamp": "2026-01-01T00:00:00Z"'),
        make_pod(policy="other"),
        make_pod(spec='{"nodeSelector": {"name": "b"}}'),
    ],
    ids=[
        "rejected for another reason",
        "rejected by another policy",
        "gated",
        "an error, which kube-scheduler retries",
        "bound",
        "terminating",
        "not the policy's pod",
        "not the pod's node",
    ],
)
def test_pod_without_a_new_feasible_node_is_not_requeued(pod):
    queue = Queue(pod)
    queue.decide(decisions("b"), 10.0)
    assert queue.at(10.0) == []


def test_no_pod_is_requeued_for_an_infeasible_node():
    queue = Queue(make_pod())
    queue.nodes["a"] = make_node("a", ready=False)
    queue.decide(decisions("b"), 10.0)
    assert queue.at(10.0) == []


def test_no_pod_is_requeued_while_the_node_is_pending():
    queue = Queue(make_pod())
    queue.decide(decisions("b", unreported=["b"]), 10.0)
    assert queue.at(10.0) == []
    queue.decide(decisions("b"), 11.0)
    assert queue.at(11.0) == ["web"]


def test_deleted_policy_readmits_all_nodes():
    queue = Queue(make_pod())
    queue.decide(Decisions(MetricTable(("a", "b"), {})), 10.0)
    assert queue.at(10.0) == ["web"]


def test_rejection_seen_after_a_readmission_counts_if_in_flight():
    queue = Queue()
    queue.decide(decisions("b"), 10.0)
    queue.pods = [make_pod("in-flight")]
    assert queue.at(10.5) == ["in-flight"]
    queue.pods.append(make_pod("later"))
    assert queue.at(15.0) == [], (
        "it was rejected although the node was accepted, so for another reason"
    )


def test_flapping_node_requeues_with_growing_backoff():
    queue = Queue(make_pod())
    requeued = []
    for tick in range(1000):
        now = tick / 10
        queue.decide(decisions("b") if tick % 2 else decisions("a", "b"), now)
        requeued += [now] * len(queue.at(now))
    gaps = [round(b - a) for a, b in itertools.pairwise(requeued)]
    assert gaps[:4] == [1, 2, 4, 8]
    assert set(gaps[4:]) == {8}


def test_node_readmitted_during_the_backoff_requeues_afterwards():
    queue = Queue(make_pod())
    queue.decide(decisions("b"), 10.0)
    queue.at(10.0)
    queue.decide(decisions(), 10.2)
    assert queue.at(10.2) == []
    assert queue.again == pytest.approx(11.0)
    assert queue.at(11.0) == ["web"]


def test_requeue_by_another_replica_counts_as_own():
    queue = Queue(make_pod())
    queue.decide(decisions("b"), 10.0)
    queue.pods = [make_pod(more=f', "annotations": {{"{REQUEUED_AT}": "1970-01-01T00:00:11Z"}}')]
    assert queue.at(12.0) == []


@pytest.mark.parametrize("text", ["soon", "2999-01-01T00:00:00Z", "", "1970-01-01T00:00:00"])
def test_invalid_requeue_annotation_is_ignored(text):
    queue = Queue(make_pod(more=f', "annotations": {{"{REQUEUED_AT}": "{text}"}}'))
    queue.decide(decisions("b"), 10.0)
    assert queue.at(10.0) == ["web"]


def test_high_priority_and_old_pods_are_requeued_first():
    def born(name, second, priority=0):
        more = f', "creationTimestamp": "2026-01-01T00:00:0{second}Z"'
        return make_pod(name, more=more, spec=f'{{"priority": {priority}}}')

    queue = Queue(born("young", 2), born("old", 1), born("first", 3, priority=5))
    queue.decide(decisions("b"), 10.0)
    assert queue.at(10.0) == ["first", "old", "young"]


def test_requeue_waits_until_every_replica_has_decided():
    pods = [make_pod()]
    found = requeue.requeue_candidates(
        requeue.find_rejected(pods, {}, 0.0).values(),
        ReadmittedNodes(NodeIndex(["a"]), np.array([10.0])),
        decisions("b").policies[DEMO],
        places_of(NODES, pods),
        RequeueTimings(settle=0.5),
    )
    assert requeue.plan(found, timings=PACE, now=10.0) == requeue.RequeuePlan((), 10.5)


def test_requeues_at_once_are_bounded():
    queue = Queue(*(make_pod(f"web-{number:02}") for number in range(25)))
    queue.decide(decisions("b"), 10.0)
    turns = [queue.at(10.0) for _ in range(4)]
    assert [len(turn) for turn in turns] == [10, 10, 5, 0]
    assert sorted(name for turn in turns for name in turn) == [
        pod.metadata.name for pod in queue.pods
    ]
