"""Routes requests to handlers by path and method; answers 404 and 405 otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from plimsoll.http.types import Handler, Refuse, RejectedRequestError, Request, Response

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
