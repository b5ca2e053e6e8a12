"""A reverse proxy that serves another server below a path of its own and takes the path off, as an ingress does."""

import contextlib
from collections.abc import AsyncIterator

from aiohttp import ClientSession, web

PREFIX = "/some/prefix"
_KEPT = ("content-type", "content-security-policy", "x-content-type-options", "cache-control")


@contextlib.asynccontextmanager
async def proxy(target: str) -> AsyncIterator[str]:
    """Serve `target` on loopback below PREFIX; return the URL of its `/`. Every other path is a 404."""
    async with ClientSession(auto_decompress=False) as session:

        async def forward(request: web.Request) -> web.Response:
            headers = {"accept": request.headers.get("accept", "*/*")}
            url = f"{target}/{request.raw_path.removeprefix(PREFIX).lstrip('/')}"
            async with session.get(url, headers=headers, allow_redirects=False) as found:
                kept = {name: found.headers[name] for name in _KEPT if name in found.headers}
                return web.Response(status=found.status, body=await found.read(), headers=kept)

        app = web.Application()
        app.router.add_get(PREFIX + "/{rest:.*}", forward)
        # A live page's request for events is still open at the end, for half a minute.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            yield f"http://127.0.0.1:{port}{PREFIX}/"
        finally:
            await runner.cleanup()
