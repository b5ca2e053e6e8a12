"""The product as installed: real programs, TLS and credentials on every port, an API server and a Prometheus."""

import asyncio
import base64
import contextlib
import json
import ssl
import sys
from pathlib import Path

import aiohttp
import bcrypt
import pytest
import yaml
from aiohttp import web

from sandbox.apiserver.server import ApiServer
from sandbox.controllers.nodes import node_object
from sandbox.processes import HeldPort
from tests.eventually import eventually
from tests.patience import PATIENCE
from tests.preloaded import Processes
from tests.tuned_evaluator import tuned

ROOT = Path(__file__).parents[2]
NODE, POLICY = "node-a", "demo-policy"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
POLICIES = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies"
ACCOUNT = "system:serviceaccount:plimsoll:plimsoll-agent"
BOUND = "authentication.kubernetes.io/node-name"


class Secrets:
    """Distinct secrets that must not appear in any log, page or object."""

    def __init__(self):
        self.kube_token = "canary-kube-token"
        self.agent_token = "canary-agent-token"
        self.false_token = "canary-false-token"
        self.password = "canary-prometheus-password"
        self.scrape_password = "canary-scrape-password"
        self.wrong_password = "canary-wrong-password"
        self.annotation = "canary-annotation"
        self.environment = "canary-environment"
        self.container_environment = "canary-container-environment"
        self.header = "canary-header"
        self.files = []

    def found_in(self, text):
        """The secrets in a text by name, and any private key or hash."""
        named = {name: value for name, value in vars(self).items() if isinstance(value, str)}
        found = {name for name, value in named.items() if value in text}
        for user, password in (("jo", self.password), ("prom", self.scrape_password)):
            if base64.b64encode(f"{user}:{password}".encode()).decode() in text:
                found.add(f"{user}'s header")
        return found | {line for line in self.lines() if line in text}

    def lines(self):
        for file in self.files:
            for line in file.read_text().splitlines():
                if len(line) >= 40:
                    yield line.strip()


class Api:
    """The sandbox's API server with added TLS, client certificates, a token, and token reviews.

    `weather` may answer in its place; `written` are the bodies of all write requests.
    """

    def __init__(self, secrets):
        self.written = []
        self.reviewed = []
        self.shown = set()
        self.weather = None
        self.url = ""
        self._secrets = secrets
        self._server = ApiServer()
        self._stack = contextlib.AsyncExitStack()

    async def start(self, tls):
        upstream = await self._server.start()
        self._stack.push_async_callback(self._server.close)
        self._session = await self._stack.enter_async_context(
            aiohttp.ClientSession(upstream, timeout=aiohttp.ClientTimeout(total=None))
        )
        self.url = await serve(self._stack, self._handle, tls)

    async def close(self):
        await self._stack.aclose()

    async def call(self, method, path, body=None, kind="application/json"):
        """A request of an administrator."""
        async with self._session.request(
            method, path, data=json.dumps(body), headers={"Content-Type": kind}
        ) as response:
            found = await response.json()
            assert response.status < 300, found
            return found

    async def _handle(self, request):
        authorization = request.headers.get("Authorization")
        self.shown.add(authorization)
        if authorization != f"Bearer {self._secrets.kube_token}":
            return web.json_response({"message": f"not {authorization}"}, status=401)
        body = await request.read()
        if request.path == REVIEWS:
            return self._review(json.loads(body))
        if request.method != "GET":
            self.written.append(body.decode())
        if self.weather and (answer := self.weather(request)):
            return answer
        return await self._forward(request, body)

    def _review(self, review):
        """As a real API server: the response repeats the request with its token. One that ends with `-` and a name is of that node."""
        token = review["spec"]["token"]
        self.reviewed.append(token)
        if not token.startswith(self._secrets.agent_token):
            status = {"authenticated": False, "error": f"no such token: {token}"}
        else:
            node = token.removeprefix(self._secrets.agent_token).removeprefix("-") or NODE
            user = {"username": ACCOUNT, "extra": {BOUND: [node]}}
            status = {"authenticated": True, "user": user, "audiences": ["plimsoll-evaluator"]}
        return web.json_response({**review, "status": status}, status=201)

    async def _forward(self, request, body):
        kept = {k: v for k, v in request.headers.items() if k in {"Content-Type", "Accept"}}
        async with self._session.request(
            request.method, request.path_qs, data=body, headers=kept
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)
            return response


class Metrics:
    """A Prometheus with a password. `says` is its response."""

    def __init__(self):
        self.shown = set()
        self.says = lambda _request: web.json_response(
            {"status": "success", "data": {"resultType": "vector", "result": []}}
        )

    async def start(self, stack):
        self.url = await serve(stack, self._handle)

    async def _handle(self, request):
        self.shown.add(request.headers.get("Authorization"))
        return self.says(request)


async def serve(stack, handler, tls=None):
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    return f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"


def server_tls(authority, pair):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(*pair)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class Installation:
    """All programs, with the evaluator and one agent at log level debug."""

    def __init__(self, folder, authority, secrets):
        self.secrets = secrets
        self.api = Api(secrets)
        self.prometheus = Metrics()
        self.authority = authority
        self.folder = folder
        self.scheduler = authority.issue("kube-scheduler", usage="clientAuth")
        self._pair = authority.issue("evaluator")
        self._operator = authority.issue("operator")
        names = ("extender", "agents", "ops", "gangs", "agent", "liar")
        self._ports = {name: HeldPort() for name in names}
        self._programs = Processes(folder / "logs")
        secrets.files += [self._pair[1], self._operator[1]]

    def port(self, name):
        return self._ports[name].number

    def url(self, name):
        scheme = "https" if name in {"extender", "gangs", "agent"} else "http"
        return f"{scheme}://127.0.0.1:{self.port(name)}"

    def pid(self, name):
        return self._programs.pid(name)

    def log(self, name):
        return (self.folder / "logs" / f"{name}.log").read_bytes().decode()

    async def start(self, stack):
        await self.api.start(server_tls(self.authority, self._pair))
        stack.push_async_callback(self.api.close)
        await self.prometheus.start(stack)
        stack.push_async_callback(self._programs.close)
        for port in self._ports.values():
            stack.callback(port.close)
        await self._furnish()

    async def _furnish(self):
        crd = yaml.safe_load((ROOT / "deploy/crd/taspolicy.yaml").read_text())
        for version in crd["spec"]["versions"]:  # as in TAS: any text is admitted
            spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await self.api.call("POST", definitions, crd)
        told = {"note": self.secrets.annotation}
        node = node_object(NODE, 0, now=1e9)
        node["metadata"]["annotations"] = told
        await self.api.call("POST", "/api/v1/nodes", node)
        rules = [{"metricname": "health_metric", "operator": "Equals", "target": 1}]
        policy = {
            "apiVersion": "telemetry.intel.com/v1alpha1",
            "kind": "TASPolicy",
            "metadata": {"name": POLICY, "namespace": "default", "annotations": told},
            "spec": {"strategies": {"dontschedule": {"rules": rules}, "deschedule": {"rules": rules}}},
        }  # fmt: skip
        await self.api.call("POST", POLICIES, policy)
        await self.api.call("POST", "/api/v1/namespaces/default/pods", self.pod(node=NODE))

    def pod(self, name="web", node=""):
        """Create a pod with the policy."""
        env = [{"name": "PASSWORD", "value": self.secrets.container_environment}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"telemetry-policy": POLICY},
                "annotations": {"note": self.secrets.annotation},
            },
            "spec": {
                "containers": [{"name": "c", "image": "none", "env": env}],
                **({"nodeName": node} if node else {}),
            },
        }

    async def start_evaluator(self, *more, listeners=4):
        config, password = self.folder / "kubeconfig", self.folder / "password"
        password.write_text(self.secrets.password)
        cert, key = (str(file) for file in self._operator)
        user = {"token": self.secrets.kube_token, "client-certificate": cert, "client-key": key}
        cluster = {"server": self.api.url, "certificate-authority": str(self.authority.file)}
        config.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": user}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "c",
                }
            )
        )
        tls = f"{self._pair[0]}", f"{self._pair[1]}", f"{self.authority.file}"
        flags = (
            f"--kubeConfig={config}",
            "--bindAddress=127.0.0.1",
            "--shutdownDelay=0s",
            *(
                f"--{flag}={file}"
                for flag, file in zip(("cert", "key", "cacert"), tls, strict=True)
            ),
            f"--agentCert={tls[0]}",
            f"--agentKey={tls[1]}",
            "--agentIdentity=token",
            f"--port={self.port('extender')}",
            f"--agentPort={self.port('agents')}",
            f"--opsPort={self.port('ops')}",
            "--gangs",
            f"--gangWebhookPort={self.port('gangs')}",
            "--metricsSource=agents,prometheus",
            f"--prometheusUrl={self.prometheus.url}",
            "--prometheusUser=jo",
            f"--prometheusPasswordFile={password}",
            "--syncPeriod=500ms",
            "--staleAfter=5s",
            "--evict",
            "--log.level=debug",
            *more,
        )
        # Agents start here or not at all: nothing has to wait for them to reconnect.
        program = tuned(agent_limits={"reconnect": 0.0})
        await self._programs.start("evaluator", (sys.executable, "-P", *program, *flags))
        await eventually(lambda: self.log("evaluator").count("listening") == listeners)

    async def start_agent(self, name="agent", *, token="", port="agent", more=()):
        secret = self.folder / f"{name}.token"
        secret.write_text(token or self.secrets.agent_token)
        texts = self.folder / "texts"
        texts.mkdir(exist_ok=True)
        (texts / "health.prom").write_text("node_health_metric 1\n")
        hashed = bcrypt.hashpw(self.secrets.scrape_password.encode(), bcrypt.gensalt(4)).decode()
        web_config = self.folder / "web.yaml"
        web_config.write_text(
            f"tls_server_config:\n  cert_file: {self._pair[0]}\n  key_file: {self._pair[1]}\n"
            f"basic_auth_users:\n  prom: {hashed}\n"
        )
        if web_config not in self.secrets.files:
            self.secrets.files.append(web_config)
        flags = (
            f"--node.name={NODE}",
            f"--web.listen-address=127.0.0.1:{self.port(port)}",
            f"--web.config.file={web_config}",
            f"--evaluator.address=127.0.0.1:{self.port('agents')}",
            f"--evaluator.tls.ca-file={self.authority.file}",
            f"--evaluator.token-file={secret}",
            f"--collector.textfile.directory={texts}",
            "--log.level=debug",
            *more,
        )
        await self._programs.start(name, (sys.executable, "-P", "-m", "agent", *flags))

    async def stop(self, name):
        await self._programs.stop(name)

    async def ready(self):
        async with aiohttp.ClientSession(self.url("ops")) as session:
            async with asyncio.timeout(PATIENCE):
                while True:
                    async with session.get("/readyz") as response:
                        if response.status == 200:
                            return
                    await asyncio.sleep(0.05)


def review(pod):
    """An admission review of a created pod."""
    request = {
        "uid": "0a1b",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": pod["metadata"].get("namespace", "default"),
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.fixture(name="review", scope="session")
def _review():
    return review


@pytest.fixture(name="eventually")
def eventually_fixture():
    return eventually


@pytest.fixture
def secrets(monkeypatch):
    made = Secrets()
    monkeypatch.setenv("DATABASE_PASSWORD", made.environment)
    return made


@pytest.fixture
async def installation(tmp_path, authority, secrets):
    async with contextlib.AsyncExitStack() as stack:
        made = Installation(tmp_path, authority, secrets)
        await made.start(stack)
        yield made
