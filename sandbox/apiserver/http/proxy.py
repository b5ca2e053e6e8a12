"""The service proxy: GET /api/v1/namespaces/<namespace>/services/<scheme>:<name>:<port>/proxy/<path>."""

from collections.abc import Mapping

import aiohttp
from aiohttp import web

from sandbox.apiserver.errors import ApiError, Subject, method_not_allowed, not_found

_FORWARDED = ("Accept", "Accept-Encoding")
_TIMEOUT = aiohttp.ClientTimeout(total=30)

Backends = Mapping[tuple[str, str, str], str]
"""Namespace, service and port name → the base URL of the program behind it."""


class ServiceProxy:
    """Forwards requests to programs that stand for the endpoints of Services; `backends` may change at any time."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    def route(self, request: web.Request) -> tuple[str, str] | None:
        """Return the base URL and the path behind it; None if this is no path of the proxy. Raises ApiError."""
        match request.path.split("/", 8):
            case ["", "api", "v1", "namespaces", namespace, "services", service, "proxy", *rest]:
                scheme, name, port = _parts(service)
                url = self._backends.get((namespace, name, port))
                if url is None:
                    raise not_found(Subject("", "services", name))
                address = url.partition("://")[2]
                return f"{scheme or 'http'}://{address}", f"/{rest[0] if rest else ''}"
            case _:
                return None

    async def forward(self, request: web.Request, url: str, path: str) -> web.Response:
        """Return the response of the program. Raises ApiError if it cannot be reached."""
        if request.method not in {"GET", "HEAD"}:
            raise method_not_allowed()
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        target = f"{url}{path}" + (f"?{request.query_string}" if request.query_string else "")
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=False) as session,
                # As kube-apiserver: no certificate is verified, and no credential is passed on.
                session.request(request.method, target, headers=headers, ssl=False) as response,
            ):
                kept = {
                    name: response.headers[name]
                    for name in ("Content-Type", "Content-Encoding", "Retry-After")
                    if name in response.headers
                }
                body = await response.read()
                return web.Response(body=body, status=response.status, headers=kept)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(
                502, "", f"error trying to reach service: {str(error) or type(error).__name__}"
            ) from error


def _parts(service: str) -> tuple[str, str, str]:
    """Return scheme, name and port of `name`, `name:port` or `scheme:name:port`."""
    match service.split(":"):
        case [name]:
            return "", name, ""
        case [name, port]:
            return "", name, port
        case [scheme, name, port]:
            return scheme, name, port
        case _:
            return "", service, ""
