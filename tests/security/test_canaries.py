"""Secrets are placed in every possible input; none is in what the programs show, write or log."""

import asyncio
import base64
import json
import os

import aiohttp
import pytest
from aiohttp import web

pytestmark = pytest.mark.e2e

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
    "/debug",
    "/metrics/../../etc/passwd",
)
AGENT = ("/healthz", "/readyz", "/", "/metrics", "/metrics?collect[]=none", "/web.yaml")


def repeats(request):
    """A server that rejects requests and repeats all it received."""
    shown = " ".join(f"{name}: {value}" for name, value in request.headers.items())
    body = {"kind": "Status", "status": "error", "message": shown, "error": shown}
    return web.json_response(body, status=403)


@pytest.fixture
def read(house, secrets):
    """The response of a port for a path with headers; requests have secret headers too."""

    async def fetch(port, path, *, tls=None, auth=None):
        headers = {"X-Secret": secrets.header, "Cookie": f"session={secrets.header}"}
        headers["Authorization"] = auth or f"Bearer {secrets.header}"
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{house.url(port)}{path}", ssl=tls) as response,
        ):
            return f"{response.status} {dict(response.headers)}\n{await response.text()}"

    return fetch


async def test_no_secret_is_shown_written_or_logged(house, secrets, read, eventually, review):
    shown = []
    house.prometheus.says = repeats
    await house.start_evaluator()
    await house.start_agent()
    await house.ready()

    # An agent with an invalid token; the API server's rejection repeats all it received.
    await house.start_agent("liar", token=secrets.false_token, port="liar")
    await eventually(lambda: "agent rejected" in house.log("evaluator"))
    await eventually(lambda: "rejected this agent" in house.log("liar"))
    await eventually(lambda: "prometheus has no answer" in house.log("evaluator"))
    house.api.weather = lambda request: repeats(request) if request.method != "GET" else None
    (house.folder / "texts" / "health.prom").write_text("node_health_metric 0\n")
    await eventually(lambda: " 403 " in house.log("evaluator"))
    house.api.weather = None

    # kube-scheduler's requests with all fields of a pod, and some invalid ones.
    tls = house.authority.client(*house.scheduler)
    question = {"Pod": house.pod(), "NodeNames": ["node-a"]}
    for verb in ("filter", "prioritize", "bind"):
        bodies = (json.dumps(question), json.dumps(question)[:-1], secrets.header, "")
        path = f"{house.url('extender')}/scheduler/{verb}"
        shown += [await ask(path, body, tls, secrets) for body in bodies]

    # The admission review of such a pod.
    trusting = house.authority.client()
    gang = house.pod()
    gang["metadata"]["labels"] |= {"podGroup": "train", "minAvailable": "four"}
    path, body = f"{house.url('gangs')}/gangs/gate", json.dumps(review(gang))
    for said in (body, body[:-1], secrets.header, ""):
        shown.append(await ask(path, said, trusting, secrets))
    assert "is 'four'" in shown[-4]

    # A waiting gang, with all fields of its pods; an event reports it.
    gang["metadata"]["labels"]["minAvailable"] = "4"
    gang["metadata"]["name"] = "train-0"
    gang["spec"]["schedulingGates"] = [{"name": "plimsoll.io/gang"}]
    await house.api.call("POST", "/api/v1/namespaces/default/pods", gang)
    await eventually(lambda: any("GangIncomplete" in body for body in house.api.written))

    # The agent's port: by authorized and other clients, and an invalid web config meanwhile.
    right = basic("prom", secrets.scrape_password)
    wrong = basic("prom", secrets.wrong_password)
    for path in AGENT:
        shown += [await read("agent", path, tls=trusting, auth=auth) for auth in (right, wrong)]
    assert "node_health_metric" in shown[-6]
    config = house.folder / "web.yaml"
    whole = config.read_text()
    kept = house.folder / "kept.yaml"
    kept.write_text(whole)
    secrets.files.append(kept)
    config.write_text(whole.replace("prom: ", "prom: '"))
    await read("agent", "/metrics", tls=trusting, auth=right)
    await eventually(lambda: "web config is invalid" in house.log("agent"))

    pages = [await read("ops", path) for path in OPS]
    assert any("train-0" in page for page in pages)
    shown += pages
    for name in ("liar", "agent", "evaluator"):
        await house.stop(name)
        shown.append(house.log(name))
    shown += house.api.written

    # All secrets were used; otherwise their absence would prove nothing.
    assert f"Bearer {secrets.kube_token}" in house.api.shown
    assert {secrets.agent_token, secrets.false_token} <= set(house.api.reviewed)
    assert any(header.startswith("Basic ") for header in house.prometheus.shown)
    assert os.environ["DATABASE_PASSWORD"] == secrets.environment
    assert any('"managedFields"' not in body and "violating" in body for body in house.api.written)

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


async def test_pages_reveal_no_files_or_flags(house, read):
    """Clients with read access must not learn paths of keys or command lines."""
    await house.start_evaluator()
    await house.start_agent()
    await house.ready()
    await asyncio.sleep(0)
    for path in OPS:
        text = await read("ops", path)
        assert str(house.folder) not in text
        assert house.api.url not in text
        assert house.prometheus.url not in text
