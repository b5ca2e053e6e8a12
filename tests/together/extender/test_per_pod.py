"""Policies with per-pod rules, over the extender's port."""

import json

import numpy as np
import pytest

from evaluator.core import protocol
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.resources import Resource
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.features.scorers.derived import ScorerMetrics, Scoring
from evaluator.features.scorers.plugin import ClusterSnapshot, ScorerResult
from evaluator.features.scorers.pod_explainer import PerPodDecisions

NODES = NodeIndex(["node-a", "node-b", "node-c"])
NOW = 1000.0
CPU = Resource.CPU
REASON = "violating safe: plimsoll_risk GreaterThan 0.5"


class Share:
    """A scorer whose risk is the requested share of 1000m, including the pod."""

    predicates = priorities = metrics = ()

    def score(self, view, pod):
        if pod.requests.get(CPU) == 13_000:
            raise ZeroDivisionError
        risk = (view.requested[CPU] + pod.requests.get(CPU, 0.0)) / 1000.0
        return ScorerResult(facts={"cpu.risk": risk, "memory.risk": view.unknown})


@pytest.fixture
async def server(extender, parsed):
    view = ClusterSnapshot(NODES, requested={CPU: np.array([100.0, 300.0, 450.0])})
    scoring = Scoring({"safe": Share()}, lambda: view)
    rule = {"metricname": "plimsoll_risk", "operator": "GreaterThan", "target": 0.5}
    safe = parsed("safe", dontschedule=[rule], scheduleonmetric=[{**rule, "operator": "LessThan"}])
    readings = ScorerMetrics(Store(stale_after=30.0, started=0.0), scoring)
    decisions = decide([safe], NODES, readings, now=NOW)
    per_pod = PerPodDecisions(scoring)

    def for_pod(args, decision, decisions):
        return per_pod.decision(decision, decisions, protocol.pod_view(args))

    return await extender(decisions, for_pod=for_pod)


def body(cpu, policy="safe"):
    labels = {"telemetry-policy": policy}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    pod = {"metadata": {"name": "web", "namespace": "ns", "labels": labels}, "spec": spec}
    return json.dumps({"Pod": pod, "NodeNames": [*NODES]}).encode()


@pytest.mark.parametrize(
    ("cpu", "refused"),
    [("50m", []), ("100m", ["node-c"]), ("0.3", ["node-b", "node-c"]), ("2", [*NODES])],
)
async def test_larger_requests_fit_fewer_nodes(server, cpu, refused):
    reply = await server.post("/scheduler/filter", body(cpu))
    answer = json.loads(reply.body)
    assert (reply.status, answer["FailedNodes"]) == (200, dict.fromkeys(refused, REASON))
    assert answer["NodeNames"] == [name for name in NODES if name not in refused]


async def test_nodes_are_ranked_per_pod(server):
    reply = await server.post("/scheduler/prioritize", body("100m"))
    assert [(one["Host"], one["Score"]) for one in json.loads(reply.body)] == [
        ("node-a", 10),
        ("node-b", 9),
        ("node-c", 8),
    ]


async def test_pod_with_invalid_requests_is_rejected_with_a_reason(server):
    reply = await server.post("/scheduler/filter", body("much"))
    assert reply.status == 400
    assert "much" in json.loads(reply.body)["Error"]


async def test_requests_of_a_pod_without_a_scorer_policy_are_not_decoded(server):
    reply = await server.post("/scheduler/filter", body("much", policy="other"))
    assert (reply.status, json.loads(reply.body)["FailedNodes"]) == (200, {})


async def test_failing_scorer_is_reported_in_words(server):
    reply = await server.post("/scheduler/filter", body("13"))
    assert (reply.status, json.loads(reply.body)["Error"]) == (
        500,
        "scorer safe failed: ZeroDivisionError",
    )
