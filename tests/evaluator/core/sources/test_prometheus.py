"""Prometheus' HTTP API over a real socket: requests, credentials, and each failure; the file of queries."""

import base64
import shutil
import ssl
import subprocess

import pytest
from aiohttp import web

from evaluator.core.sources.answer import SourceError
from evaluator.core.sources.prometheus import (
    Access,
    Prometheus,
    Queries,
    QueriesError,
    parse_queries,
)
from evaluator.core.tls import TlsError
from tests.patience import PATIENCE

DATE = "Fri, 20 Nov 2026 12:00:00 GMT"
NOON = 1795176000.0
GOOD = """
# what a policy calls it: what Prometheus is asked
memory_pressure: node_pressure_memory_waiting_seconds_total
cpu_busy: |
  1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[1m]))
one: 1
"""


def vector(**nodes):
    result = [{"metric": {"node": n}, "value": [NOON, value]} for n, value in nodes.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


@pytest.fixture
async def make(stub_server, tmp_path):
    made = []

    def start(queries="", url=None, largest=1 << 20, **access):
        path = tmp_path / "queries.yaml"
        path.write_text(queries)
        source = Prometheus(
            Access(url or stub_server.url, **access),
            Queries(str(path)),
            lambda: lambda labels: labels.get("node"),
            timeout=5.0,
            largest=largest,
            clock=lambda: 500.0,
            wall=lambda: NOON,
        )
        made.append(source)
        return source

    yield start
    for source in made:
        await source.close()


async def refused(source, metric="health_metric"):
    with pytest.raises(SourceError) as caught:
        await source.fetch(metric)
    return caught.value.reason, str(caught.value)


async def test_configured_headers_are_sent_with_credentials(make, stub_server, answer, tmp_path):
    stub_server.then(answer.says(200, vector(a="1")))
    (tmp_path / "token").write_text("secret")
    headers = (("X-Scope-OrgID", "team-a"),)
    await make(headers=headers, token_file=str(tmp_path / "token")).fetch("health_metric")
    (asked,) = stub_server.asked
    assert asked.headers["X-Scope-OrgID"] == "team-a"
    assert asked.headers["Authorization"] == "Bearer secret"


async def test_metric_is_queried_by_name(make, stub_server, answer):
    stub_server.then(answer.says(200, vector(a="1")))
    found = await make().fetch("health_metric")
    assert found.readings.keys() == {"a"}
    (asked,) = stub_server.asked
    assert (asked.method, asked.path) == ("GET", "/api/v1/query")
    assert asked.query == {
        "query": '{__name__="health_metric"} or {__name__="node_health_metric"}',
        "timeout": "5s",
    }
    assert "Authorization" not in asked.headers


@pytest.mark.parametrize("tail", ["", "/"])
async def test_path_of_the_url_is_kept(make, stub_server, answer, tail):
    stub_server.then(answer.says(200, vector(a="1")))
    await make(url=f"{stub_server.url}/team/prom{tail}").fetch("m")
    assert stub_server.asked[0].path == "/team/prom/api/v1/query"


async def test_configured_query_replaces_the_name(make, stub_server, answer):
    stub_server.then(answer.says(200, vector(a="1")))
    await make("m: max by (node) (x{a='+ &'})").fetch("m")
    assert stub_server.asked[0].query["query"] == "max by (node) (x{a='+ &'})"


async def test_long_query_is_posted(make, stub_server, answer):
    stub_server.then(answer.says(200, vector(a="1")))
    long = " or ".join(["metric"] * 1000)
    await make(f"m: {long}").fetch("m")
    (asked,) = stub_server.asked
    assert (asked.method, asked.query) == ("POST", {})
    assert asked.body.startswith(b"query=metric+or+metric")


async def test_token_is_read_for_each_request(make, stub_server, answer, tmp_path):
    token = tmp_path / "token"
    source = make(token_file=str(token))
    stub_server.otherwise(answer.says(200, vector(a="1")))
    for secret in ("one", "two"):
        token.write_text(f"{secret}\n")
        await source.fetch("m")
    assert [one.headers["Authorization"] for one in stub_server.asked] == [
        "Bearer one",
        "Bearer two",
    ]


async def test_user_and_password_are_sent(make, stub_server, answer, tmp_path):
    (tmp_path / "password").write_text("geheim:ü\n")
    stub_server.then(answer.says(200, vector(a="1")))
    await make(user="jo", password_file=str(tmp_path / "password")).fetch("m")
    sent = stub_server.asked[0].headers["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent).decode() == "jo:geheim:ü"


@pytest.mark.parametrize("content", [None, b"\xff", b"a\nb: c"])
async def test_unreadable_credentials_are_a_failure_and_not_shown(
    make, stub_server, answer, tmp_path, content
):
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    stub_server.otherwise(answer.says(200, vector(a="1")))
    reason, says = await refused(make(token_file=str(token)))
    assert reason in {"credentials", "unreachable"}
    assert "b: c" not in says
    assert stub_server.asked == []


async def test_credentials_are_not_sent_to_a_redirect(make, stub_server, answer, tmp_path):
    (tmp_path / "token").write_text("secret")

    async def elsewhere(_request):
        raise web.HTTPFound("/login")

    stub_server.otherwise(elsewhere)
    reason, says = await refused(make(token_file=str(tmp_path / "token")))
    assert (reason, says) == ("redirect", "it redirects to /login")
    assert len(stub_server.asked) == 1


async def test_redirect_is_reported_without_its_query(make, stub_server, answer):
    async def elsewhere(_request):
        raise web.HTTPFound("https://jo:geheim@login.example/start?ticket=geheim#geheim")

    stub_server.otherwise(elsewhere)
    _, says = await refused(make())
    assert says == "it redirects to https://login.example/start"


@pytest.mark.parametrize("how", ["token_file", "password_file"])
async def test_credentials_repeated_by_the_server_are_not_logged(make, stub_server, tmp_path, how):
    (tmp_path / "secret").write_text("s3cr3t-of-ours")

    async def repeats(request):
        shown = f"not {request.headers['Authorization']}, s3cr3t-of-ours"
        return web.json_response({"status": "error", "error": shown}, status=403)

    stub_server.otherwise(repeats)
    user = {"user": "jo"} if how == "password_file" else {}
    _, says = await refused(make(**{how: str(tmp_path / "secret")}, **user))
    assert says in {"403 not Bearer [hidden], [hidden]", "403 not Basic [hidden], [hidden]"}


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (
            400,
            b'{"status":"error","errorType":"bad_data","error":"1:3: parse error"}',
            "400 bad_data: 1:3: parse error",
        ),
        (503, b'{"status":"error","errorType":"timeout","error":"late"}', "503 timeout: late"),
        (404, b"<html>not here</html>", "404 Not Found"),
        (500, b"", "500 Internal Server Error"),
        (401, b"Unauthorized", "401 Unauthorized"),
    ],
)
async def test_rejection_has_the_servers_message(make, stub_server, answer, status, body, says):
    stub_server.then(answer.says(status, body))
    assert await refused(make()) == (f"http_{status}", says)


async def test_invalid_response_is_a_failure(make, stub_server, answer):
    stub_server.then(answer.says(200, b"<html>log in</html>"))
    assert (await refused(make()))[0] == "malformed"


async def test_broken_connection_is_unreachable(make, stub_server, answer):
    stub_server.otherwise(answer.breaks)
    assert (await refused(make()))[0] == "unreachable"


async def test_missing_server_is_unreachable_with_one_message_for_all(make):
    source = make(url="http://127.0.0.1:1")
    assert await refused(source, "one") == await refused(source, "two")
    assert (await refused(source))[0] == "unreachable"


async def test_oversized_response_is_not_kept(make, stub_server, answer):
    stub_server.then(answer.says(200, b" " * 100_000))
    assert (await refused(make(largest=1000)))[0] == "too_large"


async def test_readings_are_dated_by_the_servers_clock(make, stub_server):
    async def dated(_request):
        return web.json_response(vector(a="1"), headers={"Date": DATE})

    stub_server.then(dated)
    assert (await make().fetch("m")).readings["a"].at == 500.0


def test_unusable_ca_is_reported_at_startup(make, tmp_path):
    (tmp_path / "ca").write_text("no certificate")
    for path in ("/none", str(tmp_path / "ca")):
        with pytest.raises(TlsError, match=f"--prometheusCacert {path} cannot be used"):
            make(cacert=path)


@pytest.fixture
def certificate(tmp_path):
    """A self-signed certificate for 127.0.0.1, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not on PATH")
    names = ("-subj", "/CN=prometheus", "-addext", "subjectAltName=IP:127.0.0.1")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    made = ("openssl", "req", "-x509", *key, "-keyout", "key", "-out", "crt", "-days", "2", *names)
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE)
    return str(tmp_path / "crt"), str(tmp_path / "key")


@pytest.fixture
async def secure(certificate):
    """The URL of a Prometheus behind TLS, and its certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)

    async def reply(_request):
        return web.json_response(vector(a="1"))

    app = web.Application()
    app.router.add_get("/api/v1/query", reply)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield "https://{}:{}".format(*runner.addresses[0]), certificate[0]
    await runner.cleanup()


async def test_server_certificate_is_verified_against_the_ca(make, secure):
    url, cacert = secure
    assert (await make(url=url, cacert=cacert).fetch("m")).readings.keys() == {"a"}
    reason, says = await refused(make(url=url))
    assert reason == "unreachable"
    assert "certificate" in says


def test_mapping_of_names_to_queries_is_read():
    assert parse_queries(GOOD) == {
        "memory_pressure": "node_pressure_memory_waiting_seconds_total",
        "cpu_busy": '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[1m]))\n',
        "one": "1",
    }
    assert parse_queries('{"a": "b"}') == {"a": "b"}
    assert parse_queries("# nothing yet") == {}
    assert parse_queries("a: !!python/object:os.system x") == {
        "a": "x"
    }  # YAML tags create no objects


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n", "not a mapping"),
        ("a", "not a mapping"),
        ("a:\n", "a: its query is not a string"),
        ("a: [x]", "a: its query is not a string"),
        ("a: {x: y}", "a: its query is not a string"),
        ("'': x", "not a metric name"),
        ("a: 1\na: 2", "a appears twice"),
        ("a: {", "not YAML"),
        ("? [x]\n: y", "not YAML"),
    ],
)
def test_mistake_is_reported_in_a_sentence(tmp_path, text, says):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        parse_queries(text)
    assert says in str(caught.value)
    path = tmp_path / "q.yaml"
    path.write_text(text)
    with pytest.raises(QueriesError, match=f"--prometheusQueries {path}: "):
        Queries(str(path))


def test_no_file_means_no_query_and_a_missing_one_is_an_error(tmp_path):
    assert Queries("").query_of("a") is None
    with pytest.raises(QueriesError, match="No such file"):
        Queries(str(tmp_path / "none"))


def test_binary_file_is_an_error(tmp_path):
    path = tmp_path / "q.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(QueriesError, match="utf-8"):
        Queries(str(path))


def test_changed_file_takes_effect_and_an_invalid_one_does_not(tmp_path, log_lines):
    lines = log_lines("logfmt")
    path = tmp_path / "q.yaml"
    path.write_text("a: one")
    found = Queries(str(path))
    assert found.query_of("a") == "one"
    path.write_text("a: second")
    assert (found.query_of("a"), found.query_of("b")) == ("second", None)
    path.write_text("a: {")
    assert (found.query_of("a"), found.query_of("a")) == ("second", "second")
    path.unlink()
    assert (found.query_of("a"), found.query_of("a")) == ("second", "second")
    path.write_text("b: third one")
    assert (found.query_of("a"), found.query_of("b")) == (None, "third one")
    told = [line.partition(" msg=")[2] for line in lines()]
    assert [line.startswith('"queries not reloaded') for line in told] == [False, True, True, False]
