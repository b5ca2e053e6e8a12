"""Rejects requests for other hosts: the API has no authentication, so a web page must not reach it by DNS rebinding."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from plimsoll.http.routes import is_loopback
from plimsoll.text import shown
from sandbox.apiserver.errors import ApiError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def loopback_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return a 421 if the Host header is not a loopback name or address.

    A browser sends the name of the page's site, even if it resolves to 127.0.0.1. Requests without the header (HTTP/1.0) do not
    come from browsers and are allowed.
    """
    host = request.headers.get("Host")
    if host is None or is_loopback(host):
        return await handler(request)
    text = f"this server answers for localhost, 127.0.0.1 and [::1] only, not for the Host {shown(host)}"
    error = ApiError(421, "MisdirectedRequest", text)
    return web.json_response(error.status(), status=error.code)
