"""The sandbox's service proxy, over real sockets."""

import aiohttp
import pytest
from aiohttp import web

from sandbox.apiserver.server import ApiServer

PATH = "/api/v1/namespaces/plimsoll/services"


@pytest.fixture
async def url():
    """An API server with a Service `echo`, whose program repeats path and query, and a Service `down`."""

    async def echo(request):
        return web.json_response({"asked": request.path_qs}, status=418)

    app = web.Application()
    app.router.add_get("/{path:.*}", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    server = ApiServer()
    server.serve_as("plimsoll", "echo", "ops", f"http://127.0.0.1:{port}")
    server.serve_as("plimsoll", "down", "ops", "http://127.0.0.1:1")
    yield await server.start()
    await server.close()
    await runner.cleanup()


@pytest.mark.parametrize("service", ["http:echo:ops", "echo:ops"])
async def test_path_query_and_status_are_forwarded(url, service):
    async with aiohttp.ClientSession() as session:
        for path in ("", "/", "/explain/a?pod=b/c"):
            async with session.get(f"{url}{PATH}/{service}/proxy{path}") as response:
                assert response.status == 418
                assert await response.json() == {"asked": path or "/"}


@pytest.mark.parametrize(
    ("service", "method", "status", "says"),
    [
        ("nobody:ops", "GET", 404, 'services "nobody" not found'),
        ("echo:extender", "GET", 404, 'services "echo" not found'),
        ("down:ops", "GET", 502, "error trying to reach service: "),
        ("echo:ops", "POST", 405, "does not allow this method"),
    ],
)
async def test_unreachable_program_is_a_status_with_the_reason(url, service, method, status, says):
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{url}{PATH}/{service}/proxy/x") as response,
    ):
        body = await response.json()
        assert (response.status, body["kind"]) == (status, "Status")
        assert says in body["message"]
