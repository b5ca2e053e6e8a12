"""Secrets are placed in every possible input; none is in what the programs show, write or log."""

import asyncio
import base64
import json
import os

import aiohttp
import pytest
from aiohttp import web

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "gangs", "pages")]

OPS = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/explain",
    "/explain/default/demo-policy",
    "/explain/default/no-such-policy",
    "/explain/kube-system",
    "/explain?gang",
    "/explain?gang=default/train",
    "/explain?gang=default/none",
    "/",
    "/index.json",
    "/policies/default/demo-policy",
    "/policies/default/no-such-policy",
    "/nodes?state=all",
    "/pods?pod=default/none",
    "/rules",
    "/gangs",
    "/gangs/default/none",
    "/debug",
    "/metrics/../../etc/passwd",
)
AGENT = (
    "/healthz",
    "/readyz",
    "/",
    "/index.json",
    "/metrics",
    "/metrics?collect[]=none",
    "/web.yaml",
)


def repeats(request):
    """A server that rejects requests and repeats all it received."""
    shown = " ".join(f"{name}: {value}" for name, value in request.headers.items())
    body = {"kind": "Status", "status": "error", "message": shown, "error": shown}
    return web.json_response(body, status=403)


@pytest.fixture
def read(installation, secrets):
    """The response of a port for a path with headers; requests have secret headers too."""

    async def fetch(port, path, *, tls=None, auth=None):
        headers = {"X-Secret": secrets.header, "Cookie": f"session={secrets.header}"}
        headers["Authorization"] = auth or f"Bearer {secrets.header}"
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{installation.url(port)}{path}", ssl=tls) as response,
        ):
            return f"{response.status} {dict(response.headers)}\n{await response.text()}"

    return fetch


async def test_no_secret_is_shown_written_or_logged(
    installation, secrets, read, eventually, review
):
    shown = []
    installation.prometheus.says = repeats
    await installation.start_evaluator()
    await installation.start_agent()
    await installation.ready()

    # An agent with an invalid token; the API server's rejection repeats all it received.
    await installation.start_agent("liar", token=secrets.false_token, port="liar")
    await eventually(lambda: "agent rejected" in installation.log("evaluator"))
    await eventually(lambda: "rejected this agent" in installation.log("liar"))
    await eventually(lambda: "prometheus has no answer" in installation.log("evaluator"))
    installation.api.weather = lambda request: repeats(request) if request.method != "GET" else None
    (installation.folder / "texts" / "health.prom").write_text("node_health_metric 0\n")
    await eventually(lambda: " 403 " in installation.log("evaluator"))
    installation.api.weather = None

    # kube-scheduler's requests with all fields of a pod, and some invalid ones.
    tls = installation.authority.client(*installation.scheduler)
    question = {"Pod": installation.pod(), "NodeNames": ["node-a"]}
    for verb in ("filter", "prioritize", "bind"):
        bodies = (json.dumps(question), json.dumps(question)[:-1], secrets.header, "")
        path = f"{installation.url('extender')}/scheduler/{verb}"
        shown += [await ask(path, body, tls, secrets) for body in bodies]

    # The admission review of such a pod.
    trusting = installation.authority.client()
    gang = installation.pod()
    gang["metadata"]["labels"] |= {"podGroup": "train", "minAvailable": "four"}
    path, body = f"{installation.url('gangs')}/gangs/gate", json.dumps(review(gang))
    for said in (body, body[:-1], secrets.header, ""):
        shown.append(await ask(path, said, trusting, secrets))
    assert "is 'four'" in shown[-4]

    # A waiting gang, with all fields of its pods; an event reports it.
    gang["metadata"]["labels"]["minAvailable"] = "4"
    gang["metadata"]["name"] = "train-0"
    gang["spec"]["schedulingGates"] = [{"name": "plimsoll.io/gang"}]
    await installation.api.call("POST", "/api/v1/namespaces/default/pods", gang)
    await eventually(lambda: any("GangIncomplete" in body for body in installation.api.written))

    # The agent's port: by authorized and other clients, and an invalid web config meanwhile.
    right = basic("prom", secrets.scrape_password)
    wrong = basic("prom", secrets.wrong_password)
    for path in AGENT:
        shown += [await read("agent", path, tls=trusting, auth=auth) for auth in (right, wrong)]
    assert "node_health_metric" in shown[-6]
    config = installation.folder / "web.yaml"
    whole = config.read_text()
    kept = installation.folder / "kept.yaml"
    kept.write_text(whole)
    secrets.files.append(kept)
    config.write_text(whole.replace("prom: ", "prom: '"))
    await read("agent", "/metrics", tls=trusting, auth=right)
    await eventually(lambda: "web config is invalid" in installation.log("agent"))

    pages = [await read("ops", path) for path in OPS]
    assert any("train-0" in page for page in pages)
    shown += pages
    for name in ("liar", "agent", "evaluator"):
        await installation.stop(name)
        shown.append(installation.log(name))
    shown += installation.api.written

    # All secrets were used; otherwise their absence would prove nothing.
    assert f"Bearer {secrets.kube_token}" in installation.api.shown
    assert {secrets.agent_token, secrets.false_token} <= set(installation.api.reviewed)
    assert any(header.startswith("Basic ") for header in installation.prometheus.shown)
    assert os.environ["DATABASE_PASSWORD"] == secrets.environment
    assert any(
        '"managedFields"' not in body and "violating" in body for body in installation.api.written
    )

    for text in shown:
        assert secrets.found_in(text) == set(), text
        assert "BEGIN" not in text


def basic(user, password):
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


async def ask(url, body, tls, secrets):
    headers = {"User-Agent": secrets.header, "X-Secret": secrets.header}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url, data=body, ssl=tls) as response,
    ):
        return f"{response.status} {dict(response.headers)}\n{await response.text()}"


async def test_pages_reveal_no_files_or_flags(installation, read):
    """Clients with read access must not learn paths of keys or command lines."""
    await installation.start_evaluator()
    await installation.start_agent()
    await installation.ready()
    await asyncio.sleep(0)
    for path in OPS:
        text = await read("ops", path)
        assert str(installation.folder) not in text
        assert installation.api.url not in text
        assert installation.prometheus.url not in text
