"""What the scheduler sends to an extender, and how it reads the response."""

import json

import pytest
from aiohttp import web

from sandbox.scheduler.extender import (
    Extender,
    ExtenderError,
    ExtenderSpec,
    arguments,
    filtered,
    scores,
)

FIELDS = [{"manager": "kubectl"}]


def test_names_mode_sends_what_kube_scheduler_sends(pod, node):
    sent = pod(metadata={"managedFields": FIELDS}) | {"kind": "Pod", "apiVersion": "v1"}
    assert json.loads(arguments(sent, [node("b"), node("a")], node_cache_capable=True)) == {
        "Pod": pod(),
        "Nodes": None,
        "NodeNames": ["b", "a"],
    }


def test_whole_node_mode_sends_what_kube_scheduler_sends(pod, node, changed):
    sent = changed(node(), "metadata", "managedFields", to=FIELDS)
    body = arguments(pod(), [sent | {"kind": "Node", "apiVersion": "v1"}], node_cache_capable=False)
    assert json.loads(body) == {
        "Pod": pod(),
        "Nodes": {"metadata": {}, "items": [sent]},
        "NodeNames": None,
    }
    assert b'"Nodes":{"metadata":{},"items":[{' in body  # compact, in Go's order


@pytest.mark.parametrize(
    ("reply", "names", "refused"),
    [
        ({"NodeNames": ["a"], "FailedNodes": {"b": "hot"}}, {"a"}, {"b": "hot"}),
        ({"nodenames": ["a"], "failednodes": {}}, {"a"}, {}),
        ({"Nodes": {"items": [{"metadata": {"name": "b"}}]}, "NodeNames": None}, {"b"}, {}),
        ({"FailedAndUnresolvableNodes": {"a": "x"}, "Error": ""}, set(), {"a": "x"}),
        ({}, set(), {}),
    ],
)
def test_filter_replies_are_decoded(node, reply, names, refused):
    answer = filtered(reply, [node("a"), node("b")])
    assert (answer.names, answer.refused) == (names, refused)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ({"Error": "no policy"}, "no policy"),
        ({"NodeNames": ["c"]}, "'c', which is not in the request"),
        (None, "not an object"),
    ],
)
def test_failing_filter_replies_fail_the_attempt(node, reply, text):
    with pytest.raises(ExtenderError, match=text):
        filtered(reply, [node("a")])


def test_scores_are_decoded():
    assert scores([{"Host": "a", "Score": 10}, {"host": "b", "score": 0}]) == {"a": 10, "b": 0}
    assert scores(None) == {}


@pytest.mark.parametrize("reply", [{}, [{"Host": "a", "Score": 11}], [{"Host": "a", "Score": 1.5}]])
def test_scores_that_go_would_reject_are_rejected(reply):
    with pytest.raises(ExtenderError):
        scores(reply)


@pytest.mark.parametrize(
    ("resources", "managed"),
    [
        ({"limits": {"telemetry/scheduling": 1}}, True),
        ({"requests": {"telemetry/scheduling": "1"}}, True),
        ({"requests": {"cpu": "1"}}, False),
        ({}, False),
    ],
)
def test_only_pods_with_the_managed_resource_are_sent(pod, resources, managed):
    assert Extender(ExtenderSpec("http://x")).manages(pod(resources=resources)) is managed


@pytest.fixture
async def serve(unused_tcp_port_factory):
    """A server on loopback that answers every POST with a function."""
    runners = []

    async def start(answer):
        app = web.Application()
        app.router.add_post("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        port = unused_tcp_port_factory()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{port}/scheduler"

    yield start
    for runner in runners:
        await runner.cleanup()


async def test_both_verbs_share_one_connection(serve, pod, node):
    seen = []

    async def answer(request):
        body = await request.read()
        seen.append(
            (request.path, request.transport.get_extra_info("peername"), request.headers, body)
        )
        return web.json_response(
            {"NodeNames": ["a"]} if request.path.endswith("filter") else [{"Host": "a", "Score": 3}]
        )

    async with Extender(ExtenderSpec(await serve(answer))) as extender:
        found = await extender.filter(pod(), [node("a")])
        ranked = await extender.prioritize(pod(), [node("a")])
    assert (found.names, ranked) == ({"a"}, {"a": 3})
    assert [path for path, *_ in seen] == ["/scheduler/filter", "/scheduler/prioritize"]
    assert seen[0][1] == seen[1][1]
    headers = seen[0][2]
    assert headers["Content-Type"] == "application/json"
    assert headers["Accept-Encoding"] == "gzip"
    assert int(headers["Content-Length"]) == len(seen[0][3])


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (500, "{}", "code 500"),
        (404, "null", "code 404"),
        (200, "not json", "not JSON"),
        (200, "", "not JSON"),
    ],
)
async def test_unusable_responses_are_errors(serve, pod, node, status, text, message):
    async def answer(request):
        return web.Response(status=status, text=text)

    async with Extender(ExtenderSpec(await serve(answer))) as extender:
        with pytest.raises(ExtenderError, match=message):
            await extender.filter(pod(), [node("a")])


async def test_refused_connection_is_an_error(unused_tcp_port, pod, node):
    async with Extender(ExtenderSpec(f"http://127.0.0.1:{unused_tcp_port}/scheduler")) as extender:
        with pytest.raises(ExtenderError, match="ClientConnectorError"):
            await extender.filter(pod(), [node("a")])
