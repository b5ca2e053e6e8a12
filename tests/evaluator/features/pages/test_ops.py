"""The pages of the ops port over a real socket: policies, nodes, pods and metrics."""

import asyncio
import json

import aiohttp
import pytest

from evaluator.core.http import ops
from evaluator.core.model.pod import Pod, PodMeta, PodSpec, PodStatus
from evaluator.features.pages.feature import routes, routes_off
from evaluator.features.pages.handlers import Reports
from evaluator.features.pages.sources import PageSources, UnreadablePodError
from tests.evaluator.core.http.ops_port import OpsPort
from wire.codec import Delta


@pytest.fixture
def world():
    return OpsPort()


@pytest.fixture
def explaining():
    return True


@pytest.fixture
async def port(world, serve, explaining):
    sources = PageSources(world.decider, world.cluster, clock=world.clock, read_pod=world.read_pod)
    pages = routes(Reports(sources)) if explaining else routes_off()
    operations = ops.OpsServer(world.decider, world.metrics, pages=pages)
    return (await serve(operations.answer, ops.LIMITS)).address.port


@pytest.fixture
async def get(port):
    async with aiohttp.ClientSession() as session:

        async def fetch(path, **more):
            async with session.get(f"http://127.0.0.1:{port}{path}", **more) as response:
                return response.status, await response.text()

        yield fetch


@pytest.fixture
def demo(parsed, rule):
    return parsed("demo", dontschedule=[rule("m Equals 1")])


async def test_explain_shows_a_reading_with_its_age(world, get, demo):
    world.know(demo)
    world.store.report("node-a", Delta({"m": 1.0}), world.clock.now)
    world.decider.evaluate()
    world.clock.now += 20
    world.store.report("node-a", Delta(), world.clock.now)  # a heartbeat changes no decision
    world.clock.now += 2.5
    status, text = await get("/explain/ns/demo")
    node = json.loads(text)["nodes"]["node-a"]
    assert status == 200
    assert node["readings"]["m"] == {"value": 1.0, "ageSeconds": 2.5, "state": "fresh"}
    assert node["dontschedule"] == "violating demo: m Equals 1"


async def test_explain_shows_a_vanished_agent(world, get, demo):
    world.know(demo)
    world.store.report("node-a", Delta({"m": 1.0}), world.clock.now)
    world.decider.evaluate()
    world.clock.now += 31
    world.decider.evaluate()
    node = json.loads((await get("/explain/ns/demo"))[1])["nodes"]["node-a"]
    assert node["readings"]["m"]["state"] == "stale: too old to rely on"
    assert node["dontschedule"] is None


async def test_explain_without_a_policy_lists_them(world, get, demo):
    world.know(demo)
    found = json.loads((await get("/explain"))[1])
    assert [policy["explain"] for policy in found["policies"]] == ["/explain/ns/demo"]
    assert found["waitingFor"] == ["the first report of 1 node"]


async def test_explain_of_an_unknown_policy_lists_the_known_ones(world, get, demo):
    world.know(demo)
    status, text = await get("/explain/ns/other")
    assert (status, json.loads(text)["error"]) == (
        404,
        "no policy ns/other; known in this namespace: ns/demo",
    )


async def test_explain_before_the_first_list_reports_what_is_pending(get):
    status, text = await get("/explain/ns/demo")
    assert (status, json.loads(text)["error"]) == (
        404,
        "no policy ns/demo; known in this namespace: none",
    )
    assert json.loads((await get("/explain"))[1])["policies"] == []


async def test_namespace_lists_its_policies_and_pods(world, get, demo, parsed):
    world.know(demo, parsed("other", namespace="elsewhere"))
    meta = PodMeta(name="web", namespace="ns", labels={"telemetry-policy": "demo"})
    world.cluster.pods.put(Pod(meta, PodSpec(node_name="node-a"), PodStatus("Running")))
    for path in ("/explain/ns", "/explain/ns/"):
        page = json.loads((await get(path))[1])
        assert [one["policy"] for one in page["policies"]] == ["ns/demo"]
        assert page["pods"] == [
            {
                "pod": "ns/web",
                "explain": "/explain?pod=ns/web",
                "policy": "ns/demo",
                "phase": "Running",
                "node": "node-a",
                "schedulerReason": None,
                "schedulerMessage": None,
            }
        ]
    status, text = await get("/explain/empty")
    assert status == 404
    assert "namespace empty has no policy and no pod that names one" in text


async def test_root_lists_policies_and_pages(world, get, demo):
    world.know(demo)
    for path in ("/explain", "/explain/"):
        page = json.loads((await get(path))[1])
        assert [one["policy"] for one in page["policies"]] == ["ns/demo"]
        assert page["see"]["pod"] == "/explain?pod=<namespace>/<name>"
        assert page["nodeCount"] == 1


async def test_metrics_are_explained_as_far_as_policies_use_them(world, get, parsed, rule):
    world.know(parsed(dontschedule=[rule("m Equals 1"), rule("typo Equals 1")]), nodes=("a", "b"))
    world.store.report("a", Delta({"m": 0.5}, absent=["typo"]), world.clock())
    world.store.report("b", Delta(several={"m": 3}, absent=["typo"]), world.clock())
    world.decider.evaluate()
    status, text = await get("/explain?metric=node_m&metric=typo&metric=other")
    assert status == 200
    page = json.loads(text)
    assert page["nodeCount"] == 2
    assert page["metrics"]["other"] == {"read": False}
    assert page["metrics"]["node_m"] == {
        "read": True,
        "nodesWith": 2,
        "nodesWithSeveral": 1,
        "nodesWithout": 0,
        "nodesPending": 0,
        "lowest": 0.5,
        "highest": 0.5,
        "similar": [],
    }
    assert (page["metrics"]["typo"]["nodesWith"], page["metrics"]["typo"]["nodesWithout"]) == (0, 2)
    assert (await get("/explain?" + "&".join(["metric=m"] * 201)))[0] == 400


async def test_range_of_a_metric_has_its_infinities(world, get, parsed, rule):
    world.know(parsed(dontschedule=[rule("m Equals 1")]), nodes=("a", "b"))
    world.store.report("a", Delta({"m": float("inf")}), world.clock())
    world.store.report("b", Delta({"m": 1.0}), world.clock())
    world.decider.evaluate()
    found = json.loads((await get("/explain?metric=m"))[1])["metrics"]["m"]
    assert (found["lowest"], found["highest"]) == (1.0, "+Inf")


async def test_cached_and_uncached_pods_are_explained_without_scorers(world, get, demo):
    world.know(demo)
    world.store.report("node-a", Delta({"m": 1.0}), world.clock.now)
    world.decider.evaluate()
    meta = PodMeta(name="web", namespace="ns", labels={"telemetry-policy": "demo"})
    world.cluster.pods.put(Pod(meta, PodSpec(requests_extender=True), PodStatus("Pending")))
    world.uncached["ns", "plain"] = Pod(PodMeta(name="plain", namespace="ns"))
    page = json.loads((await get("/explain?pod=ns/web"))[1])
    assert page["policy"]["applies"] is True
    assert page["nodes"]["node-a"]["rules"][0]["value"] == 1.0
    assert json.loads((await get("/explain?pod=ns/plain"))[1])["policy"] is None


@pytest.mark.parametrize("name", ["ns/nobody", "ns", "NS/x", "a/b/c", "%00/x"])
async def test_unknown_pod_is_reported_as_unknown(world, get, name):
    world.know()
    status, text = await get(f"/explain?pod={name}")
    assert status == 404
    assert json.loads(text)["error"].startswith("no pod ")


async def test_pod_that_the_api_server_does_not_return_is_an_error_with_the_reason(world, get):
    world.know()
    world.uncached["ns", "web"] = UnreadablePodError("pod ns/web cannot be read: forbidden")
    status, text = await get("/explain?pod=ns/web")
    assert status == 502
    assert json.loads(text) == {
        "error": "pod ns/web cannot be read: forbidden",
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "pod ns/web cannot be read: forbidden",
        "code": 502,
    }


async def test_nodes_are_listed_with_the_policies_that_they_violate(world, get, demo):
    world.know(demo, nodes=("node-a", "node-b"))
    world.store.report("node-a", Delta({"m": 1.0}), world.clock.now)
    world.store.report("node-b", Delta({"m": 0.0}), world.clock.now)
    world.decider.evaluate()
    assert json.loads((await get("/explain?nodes"))[1])["nodes"] == {
        "node-a": {"violates": {"ns/demo": ["dontschedule"]}, "labels": {}},
        "node-b": {"violates": {}, "labels": {}},
    }
    page = json.loads((await get("/explain?node=node-a"))[1])
    rule = {
        "strategy": "dontschedule",
        "rule": "m Equals 1",
        "metric": "m",
        "targetValue": 1,
        "violated": True,
    }
    assert page["policies"]["ns/demo"] == {
        "state": "violated",
        "mode": "enforce",
        "dontschedule": "violating demo: m Equals 1",
        "deschedule": None,
        "violatedSeconds": {},
        "timers": [],
        "awaited": False,
        "labels": {},
        "rules": [rule],
        "readings": {"m": {"value": 1.0, "ageSeconds": 0.0, "state": "fresh"}},
    }
    assert (await get("/explain?node=nowhere"))[0] == 404


@pytest.mark.parametrize("explaining", [False])
async def test_explain_can_be_disabled(world, get, demo):
    world.know(demo)
    for path in ("/explain", "/explain/", "/explain/ns/demo", "/explain/ns/other"):
        status, text = await get(path)
        assert status == 404
        assert json.loads(text)["error"] == "/explain is off (--no-explain)"
    for path in ("/", "/index.json", "/nodes", "/policies/ns/demo", "/rules.json"):
        status, text = await get(path)
        assert (status, json.loads(text)["error"]) == (404, "pages are off (--no-explain)")
    assert (await get("/assets/x"))[0] == 404
    assert (await get("/metrics"))[0] == 200


async def test_error_names_some_of_many_policies(world, get, parsed, rule):
    world.know(*(parsed(f"p{n:02}", dontschedule=[rule("m Equals 1")]) for n in range(12)))
    _, text = await get("/explain/ns/other")
    known = ", ".join(f"ns/p{n:02}" for n in range(10))
    assert (
        json.loads(text)["error"]
        == f"no policy ns/other; known in this namespace: {known} and 2 more"
    )


async def test_name_in_a_path_is_escaped_in_the_json(world, get, demo):
    world.know(demo)
    status, text = await get("/explain/ns/%22%2C%22forged%22%3A%22%0a%1b")
    assert status == 404
    found = json.loads(text)
    assert found["error"] == 'no policy ns/","forged":"\n\x1b; known in this namespace: ns/demo'
    assert "forged" not in found
    assert "\x1b" not in text


async def test_thousands_of_nodes_are_explained_while_others_are_answered(world, get, demo):
    """Health is requested repeatedly while explanations are rendered; neither waits for the other."""
    nodes = [f"node-{number:04}" for number in range(3_000)]
    world.know(demo, nodes=nodes)
    pages = [asyncio.create_task(get("/explain/ns/demo")) for _ in range(3)]
    asked = 0
    while not all(page.done() for page in pages):
        assert (await get("/healthz"))[0] == 200
        asked += 1
    for page in pages:
        status, text = page.result()
        assert status == 200
        assert list(json.loads(text)["nodes"]) == nodes
    assert asked > 20  # if a page were made in one step, there would be only one or two between


async def test_many_page_requests_do_not_block_a_probe(world, port, dial, demo):
    """The kubelet opens a connection per probe and restarts an evaluator that does not answer."""
    world.know(demo, nodes=[f"node-{number:04}" for number in range(3_000)])
    clients = [await dial(port) for _ in range(ops.LIMITS.connections)]
    for peer in clients:
        await peer.say(b"GET /explain/ns/demo HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
    probe = await dial(port)
    reply = await probe.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (reply.status, reply.body) == (200, b"ok\n")


async def test_request_beyond_the_queue_is_rejected_to_be_retried(world, port, dial, demo):
    world.know(demo, nodes=[f"node-{number:04}" for number in range(3_000)])
    clients = [await dial(port) for _ in range(12)]
    for peer in clients:
        await peer.say(b"GET /explain/ns/demo HTTP/1.1\r\nHost: x\r\n\r\n")
    replies = [await peer.reply() for peer in clients]
    assert {reply.status for reply in replies} == {200, 503}
    for reply in replies:
        if reply.status == 503:
            assert reply.headers["retry-after"] == "1"
        else:
            assert len(json.loads(reply.body)["nodes"]) == 3_000


async def test_page_for_people_has_a_line_for_each_node(world, get, demo):
    world.know(demo, nodes=["node-a", "node-b"])
    _, text = await get("/explain/ns/demo")
    assert [line.split(":")[0].strip() for line in text.splitlines() if '"readings"' in line] == [
        '"node-a"',
        '"node-b"',
    ]
