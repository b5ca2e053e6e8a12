"""Routes requests to handlers by path and method, and answers 404 and 405 otherwise; rejects hosts that DNS rebinding uses."""

import ipaddress
from collections.abc import Container, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from plimsoll.http import networks
from plimsoll.http.types import Handler, Refuse, RejectedRequestError, Request, Response
from plimsoll.text import shown

_SHOWN = 100
"""Characters of a method or path that an error repeats."""


@dataclass(frozen=True, slots=True)
class Route:
    """A handler and its methods. HEAD is a GET whose reply has no body."""

    handler: Handler
    methods: tuple[str, ...] = ("GET", "HEAD")


class Routes:
    """A handler made of routes by exact path, or by prefix for keys that end with a slash; `/` is exact."""

    def __init__(self, routes: Mapping[str, Route], refuse: Refuse) -> None:
        below = {path for path in routes if path.endswith("/") and path != "/"}
        self._exact = {path: route for path, route in routes.items() if path not in below}
        self._below = {path: route for path, route in routes.items() if path in below}
        self._refuse = refuse

    async def answer(self, request: Request) -> Response:
        """Return the reply of the route's handler, or an error."""
        try:
            route = self._route(request)
        except RejectedRequestError as refused:
            return self._refuse(refused, request)
        return await route.handler(request)

    def check(self, request: Request) -> None:
        """Raise RejectedRequestError for a path or method without a route."""
        self._route(request)

    def _route(self, request: Request) -> Route:
        route = self._find(request.path)
        if route is None:
            raise RejectedRequestError(
                HTTPStatus.NOT_FOUND, f"{request.path[:_SHOWN]}: no such path here"
            )
        if request.method not in route.methods:
            allowed = ", ".join(route.methods)
            raise RejectedRequestError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"{request.method[:_SHOWN]} {request.path[:_SHOWN]}: only {allowed}",
                headers=(("allow", allowed),),
            )
        return route

    def _find(self, path: str) -> Route | None:
        if (route := self._exact.get(path)) is not None:
            return route
        return next((r for below, r in self._below.items() if path.startswith(below)), None)


def is_loopback(host: str) -> bool:
    """Return whether a Host header (`name`, `name:port`, `[address]:port`) is localhost or a loopback address."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def without_rebinding(handler: Handler, refuse: Refuse, *, open_paths: Container[str]) -> Handler:
    """Return a handler that answers clients at loopback addresses for localhost and IP addresses only, others by 421.

    A browser sends the name of a page's site, even if DNS binds it to 127.0.0.1. HTTP/1.0 without the header is no browser's.
    Such clients are on this machine or, in a pod, behind `kubectl port-forward`. Addresses are no names that DNS could bind
    anew, and sidecars send those of their pod. Clients elsewhere may use any name, as may all for the open paths.
    """

    async def answer(request: Request) -> Response:
        host = request.headers.get("host")
        local = networks.is_loopback(request.peer.address)
        if host is None or request.path in open_paths or not local:
            return await handler(request)
        if is_loopback(host) or _is_address(host):
            return await handler(request)
        reason = f"clients on loopback are answered for localhost and IP addresses only, not for the Host {shown(host)}"
        refused = RejectedRequestError(HTTPStatus.MISDIRECTED_REQUEST, reason)
        return refuse(refused, request)

    return answer


def _is_address(host: str) -> bool:
    try:
        return not ipaddress.ip_address(urlsplit(f"//{host}").hostname or "").is_unspecified
    except ValueError:
        return False
