"""The baseline: a simple extender that decodes the body to Python objects, loops, and encodes the result."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from aiohttp import web

from bench.authority import Authority


@dataclass(frozen=True, slots=True)
class Spec:
    """The CA, and lookup tables with the answers."""

    authority: Authority
    failing: Mapping[str, str]
    scores: Mapping[str, int]
    max_body: int = 128 << 20


def run(connection: "Connection[Any, Any]", spec: Spec) -> None:
    """Serve with mutual TLS; send pid and port."""

    async def serve() -> None:
        app = web.Application(client_max_size=spec.max_body)
        verbs = {"filter": filtered, "prioritize": prioritized}
        for name, verb in verbs.items():
            app.router.add_post(f"/scheduler/{name}", _handler(verb, spec))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        context = spec.authority.server_context()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        connection.send((os.getpid(), runner.addresses[0][1]))
        await asyncio.Event().wait()

    asyncio.run(serve())


def _handler(
    verb: Callable[[dict[str, Any], Spec], object], spec: Spec
) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.Response:
        answer = verb(json.loads(await request.read()), spec)
        return web.Response(text=json.dumps(answer), content_type="application/json")

    return handle


def filtered(args: dict[str, Any], spec: Spec) -> object:
    """Return the ExtenderFilterResult."""
    nodes, names = None, args["NodeNames"]
    if args["Nodes"] is not None:
        items = args["Nodes"]["items"]
        names = [node["metadata"]["name"] for node in items]
        passing = [node for node in items if node["metadata"]["name"] not in spec.failing]
        nodes = {"metadata": {}, "items": passing}
    return {
        "Nodes": nodes,
        "NodeNames": [name for name in names if name not in spec.failing],
        "FailedNodes": {name: spec.failing[name] for name in names if name in spec.failing},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def prioritized(args: dict[str, Any], spec: Spec) -> object:
    """Return the HostPriorityList."""
    names = args["NodeNames"]
    if args["Nodes"] is not None:
        names = [node["metadata"]["name"] for node in args["Nodes"]["items"]]
    return [{"Host": name, "Score": spec.scores[name]} for name in names]
