"""/explain?pod= over a real socket, from the pod cache to the page."""

import json
from dataclasses import replace

import aiohttp
import msgspec
import numpy as np
import pytest

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.http import ops
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model import pod_record
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Pod, PodMeta, PodSpec
from evaluator.core.model.resources import Resource
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.features.pages.feature import routes
from evaluator.features.pages.handlers import Reports
from evaluator.features.pages.sources import PageSources
from evaluator.features.scorers import explain
from evaluator.features.scorers.derived import OFF
from evaluator.features.scorers.page import ScoredNode
from evaluator.features.scorers.plugin import ClusterSnapshot, Demands, NodeRejection, ScorerResult
from evaluator.features.scorers.plugins.pigeon import Pigeon, PigeonOptions
from evaluator.features.scorers.plugins.template import Template
from evaluator.features.scorers.pod_explainer import PerPodDecisions, PodExplainer, PolicyLookup
from evaluator.features.scorers.runner import ScorerRunner, ScoringMetrics
from wire.codec import Delta

NODES = NodeIndex(["a", "b", "c"])


class CpuScorer:
    """Rejects nodes with less cpu than requested, and scores the rest by their cpu."""

    predicates = ("room",)
    priorities = ("roomy",)
    metrics = ()

    def score(self, view, pod):
        free = view.allocatable[Resource.CPU]
        full = NodeRejection(free < pod.requests[Resource.CPU], "no room")
        return ScorerResult(
            {"room": [full]}, {"roomy": (free // 1000).astype(np.int64)}, {"free": free}
        )


class Broken(CpuScorer):
    predicates, priorities = ("breaks",), ("broken",)

    def score(self, view, pod):
        raise ZeroDivisionError("a mistake")


def assessing(scorers, snapshotter, metrics):
    return ScorerRunner(scorers, snapshotter, ScoringMetrics(metrics.registry), demands=Demands())


class FixedSnapshots:
    def __init__(self):
        self.waiting_for = []
        free = np.array([1000.0, 4000.0, 9000.0])
        self.now = ClusterSnapshot(NODES, allocatable={Resource.CPU: free})

    def view(self):
        return self.now


def a_pod(name, node="", cpu="2"):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container]} | ({"nodeName": node} if node else {})
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return pod_record.decode(
        msgspec.Raw(msgspec.json.encode({"metadata": meta, "spec": spec, "status": {}}))
    )


@pytest.fixture
def snapshotter():
    return FixedSnapshots()


@pytest.fixture
def pods():
    found = PodCache(clock=lambda: 0.0, wall=lambda: 0.0)
    found.pods.replace([a_pod("waits"), a_pod("runs", node="b")])
    return found


@pytest.fixture
def scorers():
    return {"roomy": CpuScorer(), "template": Template()}


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def pod_explainer(scorers, snapshotter, pods, metrics):
    runner = assessing(scorers, snapshotter, metrics)
    return PodExplainer(runner, pods, {"roomy": 2, "policies": 3})


@pytest.fixture
async def get(pod_explainer, metrics, serve):
    cluster = ClusterCache()
    decider = DecisionLoop(
        cluster,
        Store(stale_after=30.0, started=0.0),
        Subscriptions(),
        metrics,
        clock=lambda: 0.0,
    )
    part = PagePart(judge=pod_explainer)
    sources = PageSources(decider, cluster, clock=lambda: 0.0, parts=lambda: [part])
    operations = ops.OpsServer(decider, metrics, pages=routes(Reports(sources)))
    port = (await serve(operations.answer, ops.LIMITS)).address.port
    async with aiohttp.ClientSession() as session:

        async def fetch(query):
            async with session.get(f"http://127.0.0.1:{port}/explain?{query}") as response:
                return response.status, json.loads(await response.text())

        async def page(path):
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text()

        fetch.page = page
        yield fetch


async def test_all_scorers_on_all_nodes_are_explained_with_the_sum(get):
    status, page = await get("pod=shop/waits")
    assert status == 200
    assert page["pod"] == "shop/waits"
    assert page["requests"] == {"cpu": 2000.0, "pods": 1.0}
    assert page["extenders"]["roomy"] == {"filter": "room", "prioritize": "roomy", "weight": 2}
    totals = {name: node["total"] for name, node in page["nodes"].items()}
    assert totals == {"a": None, "b": 4 * 20 + 10, "c": 9 * 20 + 10}
    assert page["nodes"]["a"]["refusedBy"] == ["roomy"]
    assert page["nodes"]["a"]["extenders"]["roomy"]["facts"] == {"free": 1000.0}
    assert "node" not in page


async def test_page_of_a_pod_shows_each_scorer(get):
    status, text = await get.page("/pods/shop/waits")
    assert status == 200
    assert "roomy (weight 2)" in text
    assert "adds 20, free 1000<" in text
    _, page = await get("pod=shop/waits")
    assert json.loads((await get.page("/pods/shop/waits.json"))[1]) == page


def test_facts_of_a_node_are_those_that_scorers_see(pod_explainer, snapshotter):
    facts = pod_explainer.facts_of("b")
    assert facts.allocatable == {"cpu": 4000.0}
    assert facts.requested == {}
    assert facts.congestion is None
    assert pod_explainer.facts_of("unknown") == ScoredNode()
    snapshotter.waiting_for = ["all pods"]
    assert pod_explainer.facts_of("b") == ScoredNode()


async def test_running_pod_is_explained_with_its_node_and_double_count(get):
    _, page = await get("pod=shop%2Fruns")
    assert page["node"] == "b"
    assert page["placed"].startswith("it is scored like a new pod")


async def test_unreadable_requests_are_reported(get, pods):
    memory = {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "lots"}}}
    body = {"metadata": {"name": "odd", "namespace": "shop"}, "spec": {"containers": [memory]}}
    pods.pods.put(pod_record.decode(msgspec.Raw(msgspec.json.encode(body))))
    _, page = await get("pod=shop/odd")
    (problem,) = page["problems"]
    assert problem.startswith("pod shop/odd: its request for memory is not a quantity: 'lots'")
    assert "problems" not in (await get("pod=shop/waits"))[1]


@pytest.mark.parametrize("name", ["shop/nobody", "shop", "", "/", "%00/x", "a/b/c"])
async def test_unknown_pod_is_reported_as_unknown(get, name):
    status, page = await get(f"pod={name}") if name else await get("pod=%20")
    assert status == 404
    assert page["error"].startswith("no pod ")
    assert page["error"].endswith(" (written as <namespace>/<name>)")


async def test_no_pod_is_reported_unknown_before_the_first_list(get, snapshotter):
    snapshotter.waiting_for = ["all pods"]
    status, page = await get("pod=shop/waits")
    assert (status, page["error"]) == (503, "waiting for all pods")


@pytest.mark.parametrize("scorers", [{"broken": Broken()}])
async def test_failing_scorer_is_named(get):
    status, page = await get("pod=shop/waits")
    assert (status, page["error"]) == (500, "scorer broken failed: ZeroDivisionError")


@pytest.mark.parametrize("scorers", [{"template": Template()}])
async def test_explaining_is_not_counted(get, metrics):
    await get("pod=shop/waits")
    assert metrics.registry.get_sample_value(
        "plimsoll_scorer_duration_seconds_count", {"scorer": "template"}
    ) in (None, 0.0)


def test_explaining_adds_no_demand(snapshotter, metrics, pods):
    runner = assessing({"pigeon": Pigeon(PigeonOptions())}, snapshotter, metrics)
    before = runner.view("pigeon").demands
    list(PodExplainer(runner, pods, {}).judged(a_pod("new")))
    assert runner.view("pigeon").demands == before
    runner.run("pigeon", a_pod("new").view)
    assert runner.view("pigeon").demands != before


class TestWithPolicy:
    """The policy as one of the extenders."""

    @pytest.fixture
    def decisions(self, parsed, rule):
        """A policy that rejects hot nodes: b."""
        store = Store(stale_after=30.0, started=0.0)
        store.subscribe(["hot"])
        for node, hot in zip(NODES, (0, 1, 0), strict=True):
            store.report(node, Delta({"hot": hot}), 0.0)
        policy = parsed("demo", namespace="shop", dontschedule=[rule("hot Equals 1")])
        return decide([policy], NODES, store, now=1.0)

    @pytest.fixture
    def followed(self, decisions):
        """Policies by pod: `waits` has one; `lost` names a missing one; `silent` does not request the resource."""
        labels = {"waits": "demo", "lost": "gone", "silent": "demo"}
        pods = {
            ("shop", name): Pod(
                PodMeta(name=name, namespace="shop", labels={"telemetry-policy": policy}),
                PodSpec(requests_extender=name != "silent"),
            )
            for name, policy in labels.items()
        }
        return PolicyLookup(pods, lambda: decisions, PerPodDecisions(OFF))

    def test_policy_is_evaluated_after_the_scorers(self, pod_explainer, followed):
        pod_explainer = replace(pod_explainer, policy_of=followed.decision_of)
        *others, policy = pod_explainer.judged(a_pod("waits"))
        assert [one.name for one in others] == ["roomy", "template"]
        assert (policy.name, policy.weight) == ("policies", 3)
        page = dict(explain.explain(a_pod("waits").view, [*others, policy]).nodes)
        assert page["b"].refused_by == ["policies"]
        assert page["b"].extenders["policies"].refused == {
            "dontschedule": "violating demo: hot Equals 1"
        }

    @pytest.mark.parametrize("name", ["lost", "runs", "silent"])
    def test_pod_without_a_policy_has_scorers_only(self, pod_explainer, followed, name):
        pod_explainer = replace(pod_explainer, policy_of=followed.decision_of)
        assert [one.name for one in pod_explainer.judged(a_pod(name))] == ["roomy", "template"]
