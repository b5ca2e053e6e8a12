"""The extender over real sockets: every request, however malformed, gets a valid JSON response."""

import asyncio
import gzip
import json
from dataclasses import replace

import psutil
import pytest

from evaluator.core.policy.decide import Decisions, NotReadyError
from tests.evaluator.core.placement.worlds import World
from tests.patience import PATIENCE

NODES = ("node-a", "node-b", "node-c")
VERBS = ["/scheduler/filter", "/scheduler/prioritize"]


def body(policy="demo-policy", names=NODES, namespace="ns", pod="web"):
    labels = {"telemetry-policy": policy} if policy else {}
    metadata = {"name": pod, "namespace": namespace, "labels": labels}
    return json.dumps({"Pod": {"metadata": metadata}, "Nodes": None, "NodeNames": names}).encode()


def is_error(reply, status):
    """A JSON object with a sentence in Error, which kube-scheduler shows."""
    assert reply.status == status, reply
    assert reply.headers["content-type"].startswith("application/json")
    (key, sentence), *more = json.loads(reply.body).items()
    assert (key, more) == ("Error", [])
    assert sentence
    assert len(sentence) < 400
    return sentence


async def test_filter_and_prioritize_answer(server):
    assert json.loads((await server.post(VERBS[0], body())).body) == {
        "Nodes": None,
        "NodeNames": ["node-a", "node-c"],
        "FailedNodes": {"node-b": "violating demo-policy: health_metric Equals 1"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert json.loads((await server.post(VERBS[1], body())).body) == [
        {"Host": "node-a", "Score": 10},
        {"Host": "node-b", "Score": 9},
        {"Host": "node-c", "Score": 8},
    ]
    assert server.counted("filter", 200, "decided") == 1
    assert server.counted("prioritize", 200, "decided") == 1


async def test_observed_policy_rejects_no_node_and_its_rejections_are_counted(extender, decisions):
    observed = {
        key: replace(one, policy=replace(one.policy, observed_by="--observe"))
        for key, one in decisions.policies.items()
    }
    server = await extender(Decisions(decisions.table, observed))
    filtered = json.loads((await server.post(VERBS[0], body())).body)
    assert (filtered["NodeNames"], filtered["FailedNodes"]) == (list(NODES), {})
    assert json.loads((await server.post(VERBS[1], body())).body) == []
    assert server.counted("filter", 200, "observed") == 1
    value = server.registry.get_sample_value
    nodes = "plimsoll_extender_filtered_nodes_total"
    assert [value(nodes, {"mode": mode}) for mode in ("enforce", "observe")] == [0, 1]


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [("", "no_policy_label"), ("unknown", "policy_not_found"), ("empty", "no_rules")],
)
async def test_all_nodes_pass_without_a_policy_and_this_is_counted(server, policy, outcome):
    filtered = await server.post(VERBS[0], body(policy))
    assert filtered.status == 200
    assert json.loads(filtered.body)["NodeNames"] == list(NODES)
    assert json.loads(filtered.body)["FailedNodes"] == {}
    ranked = await server.post(VERBS[1], body(policy))
    assert (ranked.status, ranked.body) == (200, b"[]")
    assert server.counted("filter", 200, outcome) == 1
    assert server.counted("prioritize", 200, outcome) == 1


BROKEN = {
    "empty": b"",
    "space": b"   \n",
    "not JSON": b"pod=web",
    "half": body()[:-10],
    "two documents": body() + body(),
    "a list": b"[]",
    "null": b"null",
    "no pod": b'{"NodeNames":["a"]}',
    "no nodes": b'{"Pod":{"metadata":{"name":"x"}}}',
    "binary": bytes(range(256)) * 40,
    "zeros": bytes(5000),
    "gzip": gzip.compress(body()),
    "deep": b"[" * 200_000,
    "utf-16": body().decode().encode("utf-16"),
    "protobuf": b"k8s\x00\n\x0c\n\x02v1\x12\x06",
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_malformed_body_is_a_400(server, verb, broken):
    is_error(await server.post(verb, broken), 400)
    assert server.counted(verb.rpartition("/")[2], 400, "refused") == 1


async def test_connection_survives_a_malformed_body(server):
    async with server.connection() as connection:
        for _ in range(3):
            is_error(await connection.post(VERBS[0], b"{"), 400)
            assert (await connection.post(VERBS[0], body())).status == 200


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("cut", [0, 1, 50, -1])
async def test_truncated_body_of_a_half_closed_connection_is_a_400(server, verb, cut):
    whole = body()
    head = f"POST {verb} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
    async with server.connection() as connection:
        reply = await connection.exchange(head + whole[:cut], half_close=True)
        sentence = is_error(reply, 400)
        assert f"{len(whole[:cut])} of {len(whole)} bytes" in sentence
        assert await connection.ended() == b""


async def test_body_truncated_later_is_a_400(server):
    whole = body()
    async with server.connection() as connection:
        head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(whole)}\r\n\r\n"
        await connection.say(head.encode() + whole[:40])
        await until(lambda: server.counted("filter", 200, "decided") is None)
        connection.writer.write_eof()
        is_error(await connection.reply(), 400)


async def until(condition):
    """Let the server run for some event loop iterations, then check."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert condition()


async def test_truncated_chunks_of_a_half_closed_connection_are_a_400(server):
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with server.connection() as connection:
        chunk = b"%x\r\n%s\r\n" % (10, body()[:10])
        is_error(await connection.exchange(head + chunk, half_close=True), 400)


async def test_whole_request_on_a_half_closed_connection_is_answered(server):
    whole = body()
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
    async with server.connection() as connection:
        reply = await connection.exchange(head + whole, half_close=True)
        assert reply.status == 200
        assert await connection.ended() == b""


async def test_closed_idle_connection_is_closed_at_once(server):
    async with server.connection() as connection:
        assert (await connection.post(VERBS[0], body())).status == 200
        connection.writer.write_eof()
        assert await connection.ended() == b""
    async with server.connection() as connection:
        connection.writer.write_eof()
        assert await connection.ended() == b""


async def test_stalled_body_times_out(extender, decisions):
    server = await extender(decisions, body=0.05)
    whole = body()
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
    async with server.connection() as connection:
        sentence = is_error(await connection.exchange(head + whole[:40]), 408)
        assert "40" in sentence
        assert await connection.ended() == b""


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_chunked_bodies_are_read(server, size):
    whole = body()
    chunks = [whole[i : i + size] for i in range(0, len(whole), size)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with server.connection() as connection:
        reply = await connection.exchange(head + sent)
        assert json.loads(reply.body)["NodeNames"] == ["node-a", "node-c"]
        assert (await connection.post(VERBS[0], body())).status == 200


async def test_malformed_chunks_are_a_400(server):
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with server.connection() as connection:
        reply = await connection.exchange(head + b"5\r\nhello\r\nzz\r\nnonsense\r\n")
        assert reply.status == 400
        assert reply.body


async def test_bodies_sent_byte_by_byte_are_read(server):
    whole = body()
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
    async with server.connection() as connection:
        for byte in head + whole:
            await connection.say(bytes([byte]))
            await asyncio.sleep(0)
        assert (await connection.reply()).status == 200


CAP = 100_000


async def test_body_up_to_the_limit_is_read(extender, decisions):
    server = await extender(decisions, body_bytes=CAP)
    whole = body()
    padded = whole[:-1] + b" " * (CAP - len(whole)) + b"}"
    assert len(padded) == CAP
    assert (await server.post(VERBS[0], padded)).status == 200
    sentence = is_error(await server.post(VERBS[0], padded + b" "), 413)
    assert str(CAP) in sentence
    assert server.counted("filter", 413, "refused") == 1


async def test_body_beyond_the_limit_is_a_413_without_a_length_too(extender, decisions):
    server = await extender(decisions, body_bytes=CAP)
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with server.connection() as connection:
        await connection.say(head + b"%x\r\n" % (CAP + 1) + bytes(CAP + 1))
        is_error(await connection.reply(), 413)


@pytest.mark.parametrize("announced", [True, False])
async def test_client_that_sends_everything_first_can_read_the_413(extender, decisions, announced):
    """As HTTP clients that write a whole request before they read the response."""
    server = await extender(decisions, body_bytes=CAP)
    size = 20 * CAP
    length = f"Content-Length: {size}" if announced else "Transfer-Encoding: chunked"
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\n{length}\r\n\r\n".encode()
    sent = bytes(size)
    if not announced:
        sent = b"%x\r\n" % size + sent + b"\r\n0\r\n\r\n"
    async with server.connection() as connection:
        await connection.say(head)
        for start in range(0, len(sent), 65536):
            await connection.say(sent[start : start + 65536])
        is_error(await connection.reply(), 413)


async def test_huge_announced_length_takes_no_memory(server):
    head = f"POST {VERBS[0]} HTTP/1.1\r\nHost: x\r\nContent-Length: {10**15}\r\n\r\n".encode()
    async with server.connection() as connection:
        is_error(await connection.exchange(head + b"{"), 413)


@pytest.mark.parametrize("path", ["/scheduler/bind", "/", "/scheduler"])
async def test_unknown_path_is_a_404_in_json(server, path):
    is_error(await server.post(path, body()), 404)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("verb", VERBS)
async def test_other_method_is_a_405_in_json(server, method, verb):
    reply = await server.request(method, verb)
    is_error(reply, 405)
    assert reply.headers["allow"] == "POST"


@pytest.mark.parametrize("verb", VERBS)
async def test_not_ready_is_a_503_with_what_is_pending(extender, verb):
    def not_yet():
        raise NotReadyError("not ready: waiting for nodes")

    server = await extender(not_yet)
    assert is_error(await server.post(verb, body()), 503) == "not ready: waiting for nodes"
    is_error(await server.post(verb, b"{"), 400)
    assert server.counted(verb.rpartition("/")[2], 503, "refused") == 1


async def test_internal_error_is_a_500_in_json(extender):
    def broken():
        raise RuntimeError("the details")

    server = await extender(broken)
    async with server.connection() as connection:
        sentence = is_error(await connection.post(VERBS[0], body()), 500)
        assert "the details" not in sentence
        is_error(await connection.post(VERBS[0], b"{"), 400)


NO_HTTP = {
    "no HTTP": (400, b"NONSENSE\r\n\r\n"),
    "no such version": (505, b"POST /scheduler/filter HTTP/9.9\r\n\r\n"),
    "no length": (400, b"POST /scheduler/filter HTTP/1.1\r\nContent-Length: five\r\n\r\n"),
    "endless header": (431, b"POST / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n"),
}


@pytest.mark.parametrize(("status", "head"), NO_HTTP.values(), ids=NO_HTTP.keys())
async def test_bytes_that_are_no_http_are_rejected_without_harm(server, status, head):
    async with server.connection() as connection:
        is_error(await connection.exchange(head), status)
    assert (await server.post(VERBS[0], body())).status == 200


async def test_client_that_resets_midway_does_no_harm(server):
    async with server.connection() as connection:
        await connection.say(b"POST /scheduler/filter HTTP/1.1\r\nContent-Length: 500\r\n\r\n{")
        connection.writer.transport.abort()
    assert (await server.post(VERBS[0], body())).status == 200


async def test_many_clients_are_answered_at_once(server):
    replies = await asyncio.gather(*(server.post(VERBS[0], body()) for _ in range(60)))
    assert {reply.status for reply in replies} == {200}
    assert len({reply.body for reply in replies}) == 1


async def test_large_request_is_returned_whole(extender, decisions):
    nodes = [
        {"metadata": {"name": f"n{i}"}, "status": {"images": ["x" * 3000]}} for i in range(3000)
    ]
    nodes += [{"metadata": {"name": name}} for name in NODES]
    asked = json.loads(body())
    server = await extender(decisions)
    sent = json.dumps({**asked, "Nodes": {"items": nodes}, "NodeNames": None}).encode()
    reply = json.loads((await server.post(VERBS[0], sent)).body)
    assert reply["Nodes"]["items"] == [n for n in nodes if n["metadata"]["name"] != "node-b"]


def open_files():
    return psutil.Process().num_fds()


async def test_resetting_clients_leave_nothing_behind(server):
    """Otherwise a port scanner could exhaust the process."""
    before = open_files()
    for _ in range(20):
        async with server.connection() as connection:
            await connection.say(b"POST /scheduler/filter HTTP/1.1\r\nContent-Length: 90\r\n\r\n{")
            connection.writer.transport.abort()
    async with asyncio.timeout(PATIENCE):
        while open_files() > before:  # noqa: ASYNC110 (the kernel tells nobody)
            await asyncio.sleep(0.005)


def asked(uid, names=NODES, cpu="200m"):
    """A request as kube-scheduler sends it, with the pod's UID and requests."""
    labels = {"telemetry-policy": "demo"}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    pod = {"metadata": {"name": uid, "namespace": "ns", "uid": uid, "labels": labels}, "spec": spec}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()


@pytest.fixture
async def world():
    return World([2.0, 2.1, 2.2])


@pytest.fixture
async def extender_of(extender, world):
    return await extender(
        lambda: world.decisions, placements=world.placements, clock=lambda: world.now
    )


async def best(server, uid, names, **pod):
    reply = await server.post(VERBS[1], asked(uid, names, **pod))
    scores = json.loads(reply.body)
    return max(scores, key=lambda one: one["Score"])["Host"]


async def test_pods_of_a_burst_go_to_different_nodes(extender_of, world):
    names = list(world.nodes)
    got = [await best(extender_of, f"p{n}", names, cpu="2") for n in range(6)]
    assert sorted(got[:3]) == sorted(got[3:]) == names


async def test_retries_of_one_pod_count_once(extender_of, world):
    names = list(world.nodes)
    for _ in range(5):
        assert await best(extender_of, "p", names, cpu="2") in names
    assert world.pods.sum() == 1


async def test_an_answer_counts_for_a_second(extender_of, world):
    assert await best(extender_of, "p", list(world.nodes)) == "n00"
    assert world.pods.tolist() == [1, 0, 0]
    world.now += 1.0
    assert world.counted.decision is world.plain


async def test_the_only_node_left_counts_without_scores(extender_of, world):
    """kube-scheduler asks for none then."""
    reply = await extender_of.post(VERBS[0], asked("p", ["n01"]))
    assert json.loads(reply.body)["NodeNames"] == ["n01"]
    assert world.pods.tolist() == [0, 1, 0]


@pytest.mark.parametrize("cpu", ["-1", "9" * 400, "1e9999", "💥", None, {}, 3.5])
async def test_malformed_requests_count_as_unknown(extender_of, world, cpu):
    assert await best(extender_of, "p", list(world.nodes), cpu=cpu) == "n00"
    assert world.pods.sum() == 1


@pytest.mark.parametrize("spec", [[], {"containers": 5}, {"containers": [{}] * 2000}])
async def test_unreadable_pods_are_answered(extender_of, world, spec):
    request = json.loads(asked("p", list(world.nodes)))
    request["Pod"]["spec"] = spec
    reply = await extender_of.post(VERBS[1], json.dumps(request).encode())
    assert len(json.loads(reply.body)) == 3
