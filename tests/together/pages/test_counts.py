"""Pages of a namespace, with --opsAuthorize, are the same whatever is in others: no name, figure, id or count differs."""

import contextlib
import re

import aiohttp
import pytest

from plimsoll.http.types import Parts, Request
from sandbox.apiserver.server import ApiServer
from tests.evaluator.conftest import Api
from tests.together.running import TASPOLICIES, RunningEvaluator, eventually, policy_body

pytestmark = pytest.mark.features("memory", "status", "pages", "history", "gangs", "stop")

PATHS = (
    *("/policies/shop", "/policies/shop/front", "/pods/shop", "/pods/shop/web", "/gangs/shop"),
    *("/gangs/shop/batch", "/history/shop", "/history/shop/front", "/policies/shop/none"),
)
EXPLAINED = (
    "/explain/shop",
    "/explain/shop/front",
    "/explain?pod=shop/web",
    "/explain?gang=shop/batch",
)
PAGES = [*PATHS, *(f"{path}.json" for path in PATHS), *EXPLAINED]
VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d(:|%3A)\d\d(:|%3A)\d\d[.\d]*( UTC|Z)?"  # times
    r"|\b\d+(\.\d+)? (ms|s|min)\b"  # durations
    r'|"\w+[sS]econds": ?[\d.]+|"(dontschedule|left)": ?[\d.]+'
    r"|\b[0-9a-f]{12}\b"  # the process
)


class World:
    """An evaluator over the namespace shop and `foreign` objects of each kind in another one."""

    def __init__(self, api, kube, folder, pair):
        self.api = api
        cert, key = map(str, pair)
        self.evaluator = RunningEvaluator(
            api, kube, folder, cert=cert, key=key, ops_tls=True, ops_authorize=True, gangs=True
        )

    async def start(self, foreign):
        await self.api.policies()
        for node in ("node-a", "node-b"):
            await self.api.node(node)
        for namespace, count in (("secret", foreign), ("shop", 1)):
            await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            for number in range(count):
                await self.fill(namespace, f"-{number}" if number else "")
        if foreign:
            meta = {"name": "plimsoll-stop", "namespace": "default"}
            body = {"metadata": meta, "data": {"secret.front": "migration"}}
            await self.api.call("POST", "/api/v1/namespaces/default/configmaps", body)
        self.evaluator.start()
        await self.evaluator.sick("node-a")

    async def fill(self, namespace, suffix):
        memory = {"plimsoll.io/memory": "3650d"}
        policy = policy_body(f"front{suffix}", memory, namespace=namespace)
        await self.api.call("POST", TASPOLICIES.format(namespace), policy)
        await self.api.pod(f"web{suffix}", namespace=namespace, policy=f"front{suffix}")
        labels = {"podGroup": f"batch{suffix}", "minAvailable": "2", "groupPriority": "1"}
        meta = {"name": f"batch{suffix}-0", "labels": labels}
        gates = [{"name": "plimsoll.io/gang"}]
        spec = {"containers": [{"name": "c", "image": "none"}], "schedulingGates": gates}
        path = f"/api/v1/namespaces/{namespace}/pods"
        await self.api.call("POST", path, {"metadata": meta, "spec": spec})

    async def pages(self):
        """Each page, without what differs between two processes."""
        return {target: VARYING.sub("", await self.page(target)) for target in PAGES}

    async def page(self, target):
        path, _, query = target.partition("?")
        name, _, value = query.partition("=")
        given = {name: [value]} if name else {}
        accept = {"accept": "text/html"}
        response = await self.evaluator.service.operations(Request("GET", path, given, accept))
        body = response.body
        return b"".join(body.parts if isinstance(body, Parts) else [body]).decode()


@pytest.fixture
async def worlds(connect, tmp_path, authority):
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for foreign in (0, 3):
            server = ApiServer()
            url = await server.start()
            stack.push_async_callback(server.close)
            session = await stack.enter_async_context(aiohttp.ClientSession())
            api = Api(server, url, session)
            world = World(api, await connect(url), tmp_path, authority.issue("server"))
            await world.start(foreign)
            stack.push_async_callback(world.evaluator.stop)
            made.append(world)
        yield made


async def test_pages_of_a_namespace_are_the_same_whatever_others_have(worlds):
    alone, beside = worlds

    async def all_is_known():
        texts = [
            await world.page(target)
            for world in worlds
            for target in ("/policies/shop/front", "/gangs/shop/batch")
        ]
        known = [
            ("RulesViolated", "podGroup batch exist")[number % 2] in x
            for number, x in enumerate(texts)
        ]
        return all(known) and "migration" in await beside.page("/")

    async def same():
        return await alone.pages() == await beside.pages()

    await eventually(all_is_known)
    with contextlib.suppress(TimeoutError):
        await eventually(same)
    expected, found = await alone.pages(), await beside.pages()
    for target in PAGES:
        assert found[target] == expected[target], target
        assert "secret" not in found[target], target
