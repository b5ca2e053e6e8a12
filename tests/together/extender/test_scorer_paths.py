"""Scorers over real sockets: paths of kube-safe-scheduler and their own, both modes, and errors."""

import json

import numpy as np
import pytest

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import ClusterSnapshot, Demands, NodeRejection, ScorerResult
from evaluator.features.scorers.plugins.template import Template
from evaluator.features.scorers.routes import ScorerRoutes
from evaluator.features.scorers.runner import ScorerRunner, ScoringMetrics
from plimsoll import VERSION

NODES = ("node-a", "node-b", "node-c")


class StubScorer:
    """A scorer that rejects node-b and scores nodes by position."""

    predicates = ("fits", "matters")
    priorities = ("late", "early")
    metrics = ()

    def __init__(self):
        self.asked = []

    def score(self, view, pod):
        self.asked.append(pod)
        places = np.arange(len(view.nodes))
        second = NodeRejection(places == 1, "is second")
        late = NodeRejection(places >= 1, "is late")
        return ScorerResult(
            {"fits": [second, late]},
            {"late": places, "early": len(places) - places},
            missing=places == 2,
        )


class Broken(StubScorer):
    predicates = ("breaks",)
    priorities = ("broken",)

    def score(self, view, pod):
        raise ZeroDivisionError("a mistake")


class FixedSnapshots:
    def __init__(self):
        self.waiting_for = []
        self.now = ClusterSnapshot(NodeIndex(NODES))

    def view(self):
        return self.now


@pytest.fixture
def snapshotter():
    return FixedSnapshots()


@pytest.fixture
def stub_scorer():
    return StubScorer()


@pytest.fixture
async def server(extender, snapshotter, stub_scorer):
    """An extender with three scorers beside its policies."""
    scorers = {"picky": stub_scorer, "template": Template(), "broken": Broken()}
    return await extender(
        scoring=lambda registry: _routes(scorers, snapshotter, ScoringMetrics(registry))
    )


def _routes(scorers, snapshotter, metrics):
    runner = ScorerRunner(scorers, snapshotter, metrics, demands=Demands())
    return ScorerRoutes(runner, metrics).groups()


def body(names=NODES, *, requests=None, whole=False, **metadata):
    containers = [{"name": "c", "resources": {"requests": requests or {}}}]
    metadata = {"name": "web", "namespace": "ns", "uid": "u1"} | metadata
    pod = {"metadata": metadata, "spec": {"containers": containers}}
    nodes = {"items": [{"metadata": {"name": name}, "more": 1} for name in names]}
    listed = {"Nodes": nodes} if whole else {"NodeNames": list(names)}
    return json.dumps({"Pod": pod, **listed}).encode()


def is_error(reply, status):
    assert reply.status == status, reply
    assert reply.headers["content-type"].startswith("application/json")
    (key, sentence), *more = json.loads(reply.body).items()
    assert (key, more) == ("Error", [])
    assert len(sentence) < 400
    return sentence


def counted(server, scorer, verb, code, outcome):
    labels = {"scorer": scorer, "verb": verb, "code": str(code), "outcome": outcome}
    return server.registry.get_sample_value("plimsoll_scorer_requests_total", labels)


@pytest.mark.parametrize("path", ["/scorers/picky/filter", "/scheduler/predicates/fits"])
async def test_rejected_node_has_the_first_reason(server, path):
    reply = await server.post(path, body())
    assert reply.status == 200
    assert json.loads(reply.body) == {
        "Nodes": None,
        "NodeNames": ["node-a"],
        "FailedNodes": {"node-b": "is second", "node-c": "is late"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


async def test_rejected_nodes_are_no_candidates_for_preemption(server):
    pod = json.loads(body())["Pod"]
    victims = {node: {"Pods": [{"UID": f"on-{node}"}], "NumPDBViolations": 1} for node in NODES}
    sent = json.dumps({"Pod": pod, "NodeNameToMetaVictims": victims}).encode()
    reply = await server.post("/scorers/picky/preempt", sent)
    assert json.loads(reply.body) == {"NodeNameToMetaVictims": {"node-a": victims["node-a"]}}
    reply = await server.post("/scorers/template/preempt", sent)
    assert json.loads(reply.body) == {"NodeNameToMetaVictims": victims}
    is_error(await server.post("/scorers/broken/preempt", sent), 500)
    is_error(await server.post("/scorers/picky/preempt", body()), 400)
    assert counted(server, "picky", "preempt", 200, "assessed") == 1


@pytest.mark.parametrize(
    ("path", "scores"),
    [
        ("/scorers/picky/prioritize", [0, 1, 2]),
        ("/scheduler/priorities/late", [0, 1, 2]),
        ("/scheduler/priorities/early", [3, 2, 1]),
        ("/scheduler/priorities/template", [1, 1, 1]),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
async def test_priorities_are_scores_of_the_requested_nodes(server, path, scores, whole):
    reply = await server.post(path, body(whole=whole))
    expected = [{"Host": node, "Score": score} for node, score in zip(NODES, scores, strict=True)]
    assert json.loads(reply.body) == expected


async def test_whole_nodes_are_returned_unchanged(server):
    reply = json.loads((await server.post("/scorers/picky/filter", body(whole=True))).body)
    assert reply["Nodes"]["items"] == [{"metadata": {"name": "node-a"}, "more": 1}]


async def test_template_scorer_passes_every_node(server):
    reply = json.loads((await server.post("/scheduler/predicates/template", body())).body)
    assert (reply["NodeNames"], reply["FailedNodes"]) == (list(NODES), {})


async def test_predicate_without_a_result_rejects_no_node(server):
    reply = json.loads((await server.post("/scheduler/predicates/matters", body())).body)
    assert reply["NodeNames"] == list(NODES)


async def test_unknown_node_passes_without_a_score(server):
    asked = body(("node-z", "node-b"))
    reply = json.loads((await server.post("/scorers/picky/filter", asked)).body)
    assert (reply["NodeNames"], list(reply["FailedNodes"])) == (["node-z"], ["node-b"])
    scores = json.loads((await server.post("/scorers/picky/prioritize", asked)).body)
    assert scores == [{"Host": "node-b", "Score": 1}]


async def test_empty_cluster_or_request_is_answered(server, snapshotter):
    assert json.loads((await server.post("/scorers/picky/prioritize", body(()))).body) == []
    snapshotter.now = ClusterSnapshot(NodeIndex())
    assert json.loads((await server.post("/scorers/picky/prioritize", body())).body) == []
    reply = json.loads((await server.post("/scorers/picky/filter", body())).body)
    assert reply["NodeNames"] == list(NODES)


async def test_requests_about_one_pod_share_one_assessment(server, snapshotter, stub_scorer):
    for path in (
        "/scorers/picky/filter",
        "/scorers/picky/prioritize",
        "/scheduler/priorities/early",
    ):
        await server.post(path, body())
    assert len(stub_scorer.asked) == 1
    assert counted(server, "picky", "filter", 200, "assessed") == 1
    assert counted(server, "picky", "prioritize", 200, "remembered") == 2
    snapshotter.now = ClusterSnapshot(NodeIndex(NODES[:2]))
    scores = json.loads((await server.post("/scorers/picky/prioritize", body())).body)
    assert [score["Host"] for score in scores] == ["node-a", "node-b"]
    assert len(stub_scorer.asked) == 2


async def test_missing_nodes_and_duration_are_measured(server):
    await server.post("/scorers/picky/filter", body())
    value = server.registry.get_sample_value
    assert value("plimsoll_scorer_missing_nodes", {"scorer": "picky"}) == 1
    assert value("plimsoll_scorer_duration_seconds_count", {"scorer": "picky"}) == 1


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/scheduler/predicates/nonsense", "fits, matters, template, breaks"),
        ("/scheduler/priorities/nonsense", "late, early, template, broken"),
        ("/scheduler/predicates/", "fits"),
        ("/scorers/nonsense/filter", "picky/filter, picky/prioritize, picky/preempt, template"),
        ("/scorers/picky/", "picky/filter"),
        ("/scorers/picky/filter/", "picky/filter"),
        ("/scorers/%70icky/filter", "picky/filter"),
        ("/scorers/../scheduler/filter", "picky/filter"),
        ("/scorers/" + "x" * 5000, "picky/filter"),
    ],
)
async def test_unknown_scorer_is_a_404_that_lists_the_scorers(server, path, known):
    assert known in is_error(await server.post(path, body()), 404)
    assert counted(server, "other", "other", 404, "refused") == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
async def test_other_method_is_a_405(server, method):
    async with server.connection() as connection:
        await connection.say(
            f"{method} /scorers/picky/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()
        )
        head = (await connection.reader.readuntil(b"\r\n\r\n")).decode()
    assert " 405 " in head.splitlines()[0]
    assert "allow: POST" in head
    assert counted(server, "picky", "filter", 405, "refused") == 1


@pytest.mark.parametrize(
    "broken",
    [b"", b"{", b"[]", b"null", b'{"Pod": {}, "NodeNames": 3}', bytes(5000), b"[" * 200_000],
)
@pytest.mark.parametrize("path", ["/scorers/picky/filter", "/scheduler/priorities/late"])
async def test_malformed_body_is_a_400(server, stub_scorer, path, broken):
    is_error(await server.post(path, broken), 400)
    assert stub_scorer.asked == []


@pytest.mark.parametrize(
    "requests", [{"cpu": "lots"}, {"cpu": "-1"}, {"memory": "1Qi"}, {"cpu": "1" * 500}, {"cpu": []}]
)
async def test_invalid_quantity_is_a_400_with_the_reason(server, stub_scorer, requests):
    sentence = is_error(await server.post("/scorers/picky/filter", body(requests=requests)), 400)
    assert "ns/web" in sentence
    assert stub_scorer.asked == []


@pytest.mark.parametrize("spec", [3, {"containers": 3}, {"containers": [3]}, {"overhead": []}])
async def test_invalid_pod_is_a_400(server, stub_scorer, spec):
    pod = {"metadata": {"name": "web"}, "spec": spec}
    asked = json.dumps({"Pod": pod, "NodeNames": list(NODES)}).encode()
    is_error(await server.post("/scorers/picky/filter", asked), 400)
    assert stub_scorer.asked == []


async def test_pod_requests_reach_the_scorer(server, stub_scorer):
    asked = body(requests={"cpu": "250m", "memory": "1Gi"}, labels={"app": "shop"})
    assert (await server.post("/scorers/picky/filter", asked)).status == 200
    (pod,) = stub_scorer.asked
    assert (pod.name, pod.uid, pod.kind) == ("ns/web", "u1", "shop")
    assert pod.requests == {Resource.CPU: 250.0, Resource.MEMORY: 2.0**30, Resource.PODS: 1.0}


async def test_pod_with_huge_requests_is_answered(server, stub_scorer):
    asked = body(requests={"cpu": "9999999999E", "memory": "1e300"})
    assert (await server.post("/scorers/picky/prioritize", asked)).status == 200
    assert all(np.isfinite(list(stub_scorer.asked[0].requests.values())))


@pytest.mark.parametrize("count", [2_000, 150_000])
@pytest.mark.parametrize("kind", [b"containers", b"initContainers"])
async def test_pod_with_too_many_containers_is_rejected(server, stub_scorer, count, kind):
    containers = b"[" + b'{"name":"c"},' * count + b"{}]"
    pod = b'{"metadata":{"name":"web"},"spec":{"' + kind + b'":' + containers + b"}}"
    asked = b'{"Pod":' + pod + b',"NodeNames":["node-a"]}'
    assert "a Pod of more than" in is_error(await server.post("/scorers/picky/filter", asked), 400)
    assert stub_scorer.asked == []


@pytest.mark.parametrize("name", ["<script>", "\n\x00", "ü" * 300, "a" * 100_000, "../.."])
async def test_node_and_pod_names_may_be_any_text(server, name):
    asked = body((name, "node-a"), name=name, uid=name)
    reply = json.loads((await server.post("/scorers/picky/filter", asked)).body)
    assert reply["NodeNames"] == [name, "node-a"]
    scores = json.loads((await server.post("/scorers/picky/prioritize", asked)).body)
    assert scores == [{"Host": "node-a", "Score": 0}]


async def test_not_ready_is_a_503_with_what_is_pending(server, snapshotter):
    snapshotter.waiting_for = ["nodes", "all pods"]
    sentence = is_error(await server.post("/scorers/picky/filter", body()), 503)
    assert "nodes, all pods" in sentence
    assert counted(server, "picky", "filter", 503, "refused") == 1


async def test_failing_scorer_is_a_500_and_others_continue(server):
    assert "broken failed: ZeroDivisionError" in is_error(
        await server.post("/scheduler/priorities/broken", body()), 500
    )
    assert (await server.post("/scorers/picky/filter", body())).status == 200


async def test_version_is_plain_text_and_bind_is_an_error(server):
    version = await server.request("GET", "/version")
    assert (version.status, version.body.decode().strip()) == (200, VERSION)
    assert version.headers["content-type"].startswith("text/plain")
    assert "bindVerb" in is_error(await server.post("/scheduler/bind", b"{}"), 200)


async def test_paths_exist_only_with_scorers(extender):
    server = await extender()
    for path in ("/scorers/picky/filter", "/scheduler/predicates/fits", "/scheduler/bind"):
        is_error(await server.post(path, body()), 404)
    is_error(await server.request("GET", "/version"), 404)
