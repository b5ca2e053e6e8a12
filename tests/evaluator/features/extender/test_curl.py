"""curl as an independent client."""

import asyncio
import json
import shutil

import pytest

from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not on PATH")

NAMES = ["node-a", "node-b", "node-c"]
PASSING = ["node-a", "node-c"]
METADATA = {"name": "web", "namespace": "ns", "labels": {"telemetry-policy": "demo-policy"}}
QUESTION = {"Pod": {"metadata": METADATA}, "NodeNames": NAMES}


@pytest.fixture
def asked(tmp_path):
    """A file with the request."""
    path = tmp_path / "question.json"
    path.write_text(json.dumps(QUESTION))
    return path


@pytest.fixture
def curl(tmp_path):
    """Run curl; return its exit status, the bodies, and the -w output."""

    async def run(*arguments, given=None):
        command = ("curl", "--silent", "--show-error", "--max-time", "30", *arguments)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate(given)
        return process.returncode, said.decode()

    return run


def passing(said):
    return json.loads(said)["NodeNames"]


WAYS = {
    "as it does by itself": (),
    "HTTP/1.0": ("--http1.0",),
    "in chunks": ("-H", "Transfer-Encoding: chunked"),
    "asking first": ("-H", "Expect: 100-continue"),
    "offering h2c": ("--http2",),
    "asking for compression": ("--compressed",),
    "by an absolute path after dots": ("--path-as-is",),
    "without keeping the connection": ("-H", "Connection: close"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
async def test_each_request_form_of_curl_is_answered(server, curl, asked, way):
    url = f"http://127.0.0.1:{server.port}/scheduler/filter"
    status, said = await curl("--data-binary", f"@{asked}", *way, url)
    assert (status, passing(said)) == (0, PASSING)


async def test_request_through_a_proxy_is_answered(server, curl, asked):
    """An absolute target (RFC 9112 3.2.2)."""
    proxy = f"http://127.0.0.1:{server.port}"
    url = "http://evaluator.plimsoll.svc/scheduler/filter"
    status, said = await curl("--data-binary", f"@{asked}", "--proxy", proxy, url)
    assert (status, passing(said)) == (0, PASSING)


async def test_large_request_from_a_pipe_is_answered(server, curl):
    """Chunks, and 100-continue, which curl requests by itself for large bodies."""
    url = f"http://127.0.0.1:{server.port}/scheduler/filter"
    question = json.dumps({**QUESTION, "NodeNames": NAMES + ["n" * 200] * 20_000}).encode()
    for how in (("-T", "-", "-X", "POST"), ("--data-binary", "@-")):
        status, said = await curl(*how, url, given=question)
        assert (status, len(passing(said))) == (0, 20_002)


async def test_one_connection_serves_many_requests(server, curl, asked):
    url = f"http://127.0.0.1:{server.port}/scheduler/filter"
    asking = (
        "--data-binary",
        f"@{asked}",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{num_connects} ",
    )
    several = (*asking, url, "--next", *asking, url, "--next", *asking, url)
    assert await curl(*several) == (0, "200 1 200 0 200 0 ")


async def test_early_rejection_reaches_a_client_that_still_sends(extender, decisions, curl):
    server = await extender(decisions, body_bytes=1000)
    url = f"http://127.0.0.1:{server.port}/scheduler/filter"
    for how in (("-T", "-", "-X", "POST"), ("--data-binary", "@-"), ("-H", "Expect:", "-d", "@-")):
        status, said = await curl(*how, "-w", "%{http_code}", url, given=b"[" * 3_000_000)
        assert (status, said[-3:]) == (0, "413")
        assert "1000" in json.loads(said[:-3])["Error"]


async def test_head_and_other_methods_are_rejected(server, curl):
    url = f"http://127.0.0.1:{server.port}/scheduler/filter"
    for how in (("--head",), ("-X", "DELETE"), ()):
        status, said = await curl(*how, "--include", url)
        assert (status, said.split()[1]) == (0, "405")
        assert "allow: post" in said.lower()


async def test_http_2_by_prior_knowledge_is_rejected_without_harm(server, curl, asked):
    url = f"http://127.0.0.1:{server.port}/scheduler/filter"
    question = ("--data-binary", f"@{asked}")
    status, _ = await curl("--http2-prior-knowledge", *question, url)
    assert status != 0
    status, said = await curl(*question, url)
    assert (status, passing(said)) == (0, PASSING)


@pytest.mark.parametrize(
    "way", [(), ("--http2",), ("--tlsv1.3",), ("--tls-max", "1.2")], ids=" ".join
)
async def test_request_over_tls_is_answered(
    extender, decisions, secured, authority, curl, asked, way
):
    server = await extender(decisions, tls=secured)
    cert, key = authority.issue("kube-scheduler")
    url = f"https://127.0.0.1:{server.port}/scheduler/filter"
    trust = ("--cacert", str(authority.file))
    question = (*trust, "--data-binary", f"@{asked}", "-w", "%{http_version}", url)
    status, said = await curl("--cert", str(cert), "--key", str(key), *way, *question)
    assert (status, said[-3:]) == (0, "1.1")
    assert passing(said[:-3]) == PASSING
    status, _ = await curl(*way, *question)
    assert status != 0  # without a certificate
