"""Hostile names and sentences, through every input that is logged: each event stays one line with its own keys."""

import base64
import contextlib
import json
import os
import ssl

import grpc
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from wire import telemetry_pb2, telemetry_pb2_grpc

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "gangs", "pages")]

NASTY = (
    'x\nts=1 level=error msg="forged\\" forged=1\r\n{"level":"error"}\u2028\u2029\x85\x0b\x0c'
    "\x1b[2K\x1b[1A\x1b]0;t\x07\x7f\u202e\u2066\ufeff\u200b forged=1 \\"
)
LONG = "y" * 1_000_000
NAMES = (NASTY, LONG, NASTY + "\0", "%s %(x)d {0} {x.y}")
KEYS = {
    *("ts", "level", "msg", "exception", "server", "address", "tls", "source", "status", "error"),
    *("pod", "policy", "why", "node", "nodes", "passed", "failed", "strategy", "label", "wanted"),
    *(
        "lease",
        "me",
        "before",
        "leader",
        "version",
        "peer",
        "code",
        "delay",
        "kind",
        "path",
        "names",
    ),
    *("labels", "metric", "theirs", "file", "method", "reason", "cert", "verb", "client", "more"),
    *("listed", "others", "not_logged_before", "port", "result"),
    *("waiting_for", "gang", "pods", "obstacles", "resource", "since"),
    *("allowed", "needed", "connections"),
}
"""All keys of the evaluator's log lines; forged ones are not among them."""
LONGEST = 16 << 10
"""Bytes: container runtimes split longer lines."""


@pytest.fixture(params=["logfmt", "json"])
async def lines(request, installation, read_logfmt):
    """Start the evaluator with a log format, stop it, and return its log lines."""
    await installation.start_evaluator(f"--log.format={request.param}", "--staleAfter=1s")
    await installation.ready()
    read = json.loads if request.param == "json" else read_logfmt

    async def take():
        await installation.stop("evaluator")
        return [(line, read(line)) for line in installation.log("evaluator").split("\n")[:-1]]

    return take


async def test_no_input_forges_a_log_line_or_key(
    installation, lines, dial, eventually, untrusted, review
):
    tls = installation.authority.client(*installation.scheduler)
    await ask_as_a_scheduler(installation, dial, tls)
    await ask_as_an_api_server(installation, dial, review)
    await speak_badly(dial, installation.port("extender"), tls)
    await speak_badly(dial, installation.port("gangs"), installation.authority.client())
    await speak_badly(dial, installation.port("ops"), None)
    await speak_badly(dial, installation.port("agents"), None)
    await shake_hands_badly(installation, dial, untrusted)
    await report_as(installation)
    await answer_badly(installation, eventually)
    found = await lines()
    assert len(found) > 40
    messages = [fields["msg"] for _, fields in found]
    for said in (
        *("All nodes pass", "filter refused", "agent rejected", "problem in policy"),
        *("admission review", "admission review refused"),
    ):
        assert any(said in message for message in messages), said
    for line, fields in found:
        assert line.isprintable(), line
        assert len(line.encode()) < LONGEST, line[:300]
        assert fields.keys() <= KEYS, line
        assert fields["level"] in {"debug", "info", "warning", "error"}
        assert fields["ts"].startswith("20")


async def ask_as_a_scheduler(installation, dial, tls):
    """Hostile names of the pod, the policy and the nodes."""
    peer = await dial(installation.port("extender"), tls)
    for name in NAMES:
        for metadata, nodes in (
            ({"name": name}, ["node-a"]),
            ({"name": "p", "namespace": name}, ["node-a"]),
            ({"name": "p", "labels": {"telemetry-policy": name}}, ["node-a"]),
            ({"name": "p", "labels": {name: name}}, [name]),
            ({"name": "p", "labels": {"telemetry-policy": "demo-policy"}}, [name, f"{name}2"]),
            ({"name": "p", "labels": name}, [name]),
        ):
            body = json.dumps({"Pod": {"metadata": metadata}, "NodeNames": nodes}).encode()
            for verb in ("filter", "prioritize"):
                reply = await peer.ask(
                    b"POST /scheduler/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                    % (verb.encode(), len(body), body)
                )
                assert reply.status in {200, 400}
                json.loads(reply.body)


async def ask_as_an_api_server(installation, dial, review):
    """Hostile names and labels of a created pod, which are not validated yet."""
    peer = await dial(installation.port("gangs"), installation.authority.client())
    for name in NAMES:
        for metadata in (
            {"name": name, "namespace": name},
            {"generateName": name, "labels": {"podGroup": "train", "minAvailable": name}},
            {"name": "p", "labels": {"groupPriority": name, name: name}},
            {"name": "p", "labels": name},
        ):
            body = json.dumps(review({"metadata": metadata})).encode()
            head = b"POST /gangs/gate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            reply = await peer.ask(head % len(body) + body)
            assert reply.status in {200, 400}
            warnings = json.loads(reply.body).get("response", {}).get("warnings", [])
            assert all(one.isprintable() and len(one) < 256 for one in warnings)


async def speak_badly(dial, port, tls):
    """Malformed request lines and headers."""
    raw = NASTY.encode()
    tame = raw.replace(b"\n", b"\\n").replace(b"\r", b"\\r").replace(b" ", b"+")
    for head in (
        b"GET /" + tame + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /scheduler/" + tame + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"GET /explain/%0Alevel=error%20msg=forged/%1b%5b2K HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%2e%2e/" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GE\x1bT / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: " + tame + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: " + tame + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-" + tame + b": y\r\n\r\n",
        raw + b"\r\n\r\n",
    ):
        peer = await dial(port, tls)
        with contextlib.suppress(OSError):  # it may have closed already
            await peer.say(head, end=tls is None)
        peer.vanish()


async def shake_hands_badly(installation, dial, untrusted):
    """Certificates and trust of another CA, on every TLS port."""
    pair = untrusted.issue("forged=1")
    for trusting in (installation.authority.client(*pair), untrusted.client(*pair)):
        trusting.set_alpn_protocols(["h2", "http/1.1"])
        for port in ("extender", "agents", "gangs"):
            with contextlib.suppress(ssl.SSLError, OSError):
                peer = await dial(installation.port(port), trusting)
                await peer.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + NASTY.encode())
                await peer.rest()


async def report_as(installation):
    """Hostile node name, version, token and metadata of an agent."""
    credentials = grpc.ssl_channel_credentials(installation.authority.file.read_bytes())
    options = [("grpc.primary_user_agent", "forged=1 level=error")]
    target = f"127.0.0.1:{installation.port('agents')}"
    for name in (*NAMES[:2], NAMES[3]):
        for token in (installation.secrets.agent_token, 'forged" level=error'):
            async with grpc.aio.secure_channel(target, credentials, options=options) as channel:
                stub = telemetry_pb2_grpc.TelemetryStub(channel)
                metadata = (("authorization", f"Bearer {token}"), ("x-nasty-bin", NASTY.encode()))
                call = stub.Stream(metadata=metadata)
                report = telemetry_pb2.Report(
                    node_name=name[:400_000], agent_version=name[:400_000]
                )
                await call.write(report)
                assert await call.code() is not grpc.StatusCode.OK


VECTOR = {"resultType": "vector"}
SAID = {
    "refusal": {"status": "error", "errorType": NASTY, "error": NASTY + LONG},
    "kind": {"status": "success", "data": {"resultType": NASTY + LONG, "result": []}},
    "strays": {
        "status": "success",
        "data": {**VECTOR, "result": [{"metric": {"node": NASTY, "x": LONG}, "value": [1, "1"]}]},
    },
    "number": {
        "status": "success",
        "data": {**VECTOR, "result": [{"metric": {"node": "node-a"}, "value": [1, NASTY]}]},
    },
}
"""Prometheus' responses for metrics of these names."""


def nasty_policy(name, longest):
    """A policy whose metrics and labels have names of at most `longest` characters."""
    rules = [
        {"metricname": metric, "operator": "Equals", "target": 1, "labels": [f"{metric}=1"]}
        for metric in (*(metric[:longest] for metric in NAMES), *SAID)
    ]
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"strategies": {"labeling": {"rules": rules}, "dontschedule": {"rules": rules}}},
    }


async def answer_badly(installation, eventually):
    """Hostile error messages of the API server and Prometheus, and hostile policies."""
    installation.prometheus.says = lambda request: web.json_response(
        next((said for name, said in SAID.items() if name in request.query["query"]), {})
    )
    installation.api.weather = lambda request: (
        web.json_response({"message": NASTY + LONG, "details": {"causes": []}}, status=403)
        if request.method in {"PATCH", "POST"}
        else None
    )
    path = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies"
    for policy in (nasty_policy("nasty", 20_000), nasty_policy("huge", 200_000)):
        await installation.api.call("POST", path, policy)
    await eventually(lambda: "status not written" in installation.log("evaluator"))
    await eventually(lambda: "the policy is not enforced" in installation.log("evaluator"))
    for name in SAID:
        told = f"prometheus has no answer for {name}"
        await eventually(lambda told=told: told in installation.log("evaluator"))


async def test_files_on_a_node_forge_nothing_in_the_agents_log_and_metrics(
    installation, dial, eventually, read_logfmt
):
    folder = installation.folder / "texts"
    folder.mkdir()
    tame = NASTY.replace("/", "_")[:60]
    for number, text in enumerate(
        (
            f"{NASTY} 1\n",
            f'm{{l="{NASTY}"}} 1\n',
            f"# HELP m {NASTY}\nm 1\n",
            f"# TYPE m {NASTY}\nm 1\n",
            f"{LONG} 1\n",
            f'long{{l="{LONG}"}} 1\n',
            'good{l="a\\nb\\"c"} 1\n',
        )
    ):
        (folder / f"{tame}{number}.prom").write_text(text)
    (folder / "link.prom").symlink_to(tame)
    (folder / os.fsdecode(b"\xff\xfe.prom")).write_text("bytes_in_a_name 1\n")
    await installation.start_agent()
    await eventually(lambda: installation.log("agent").count("text file not exported") >= 4)
    tls = installation.authority.client()
    login = base64.b64encode(f"prom:{installation.secrets.scrape_password}".encode())
    peer = await dial(installation.port("agent"), tls)
    page = await peer.ask(
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + login + b"\r\n\r\n"
    )
    samples = {
        (sample.name, sample.labels.get("l"))
        for family in text_string_to_metric_families(page.body.decode())
        for sample in family.samples
    }
    assert ("good", 'a\nb"c') in samples
    assert ("bytes_in_a_name", None) in samples
    assert not any(name.startswith("forged") for name, _ in samples)
    await speak_badly(dial, installation.port("agent"), tls)
    await installation.stop("agent")
    for line in installation.log("agent").split("\n")[:-1]:
        assert line.isprintable(), line
        assert len(line.encode()) < LONGEST, line[:300]
        assert {"ts", "level", "msg"} <= read_logfmt(line).keys()
        assert "forged" not in read_logfmt(line)


def test_hostile_text_has_line_ends_and_control_characters():
    """The text would break lines if it were not escaped."""
    assert len(NASTY.splitlines()) > 5
    assert not NASTY.isprintable()
    assert ssl.HAS_TLSv1_3
