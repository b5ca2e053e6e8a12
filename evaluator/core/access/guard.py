"""Admits requests: authenticates the user, then authorizes what the request asks for.

Users are authenticated by the front proxy's headers, else by a bearer token. Health paths need neither. Discovery needs an
authenticated user. Everything else needs a permission, which is never assumed: without an answer of the API server, the
request fails with 503. The ports of an evaluator share caches of reviews and the front proxy (`DelegatedAccess`).
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from evaluator.core.access import user as users
from evaluator.core.access.authenticators import (
    CONFIG_MAP,
    FrontProxy,
    TokenReviewer,
    decode_config_map,
)
from evaluator.core.access.review_limits import BoundedCache, SharedCalls
from evaluator.core.access.user import (
    Attributes,
    InvalidTokenError,
    RequestHeaderError,
    UnreviewedError,
    User,
    denial,
    review_spec,
)
from evaluator.core.isolation import Part
from evaluator.core.kube.client import Kube
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.transport import KubeError
from evaluator.core.metrics import Metrics
from evaluator.core.model.api_status import AccessReview
from evaluator.core.signals import Publish, unheard
from plimsoll import logs
from plimsoll.http.types import Handler, Refuse, RejectedRequestError, Request, Response
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.text import one_line

FRESH = 10.0
"""Seconds for which a result, or a token's user, is reused, as in k8s.io/apiserver."""
_MOST = 10_000
"""Cached results of each kind, so that a flood of forbidden requests does not displace the permissions of others."""
_AT_ONCE = 16
_TIMEOUT = 5.0
"""Seconds."""
RESULTS = ("allowed", "unauthenticated", "forbidden", "unavailable")
HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_RETRY = (("retry-after", "1"),)
_CHALLENGE = (("www-authenticate", "Bearer"),)
_RESULTS = {HTTPStatus.UNAUTHORIZED: "unauthenticated", HTTPStatus.FORBIDDEN: "forbidden"}


class Authority(Protocol):
    """The API server's method needed here."""

    async def review_access(self, spec: Mapping[str, Any]) -> AccessReview:
        """Return the review of one question. Raises KubeError."""
        ...


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a user may do something. `reason`: the authorizer's, often empty."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Reviewed:
    at: float
    permission: Permission


class AccessReviewer:
    """Returns permissions. Concurrent identical questions are one request to the API server."""

    def __init__(
        self,
        authority: Authority,
        *,
        timeout: float = _TIMEOUT,
        most: int = _MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._timeout = timeout
        self._clock = clock
        self._allowed: BoundedCache[_Reviewed] = BoundedCache(most)
        self._denied: BoundedCache[_Reviewed] = BoundedCache(most)
        self._reviews: SharedCalls[Permission] = SharedCalls()
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def review(self, user: User, attributes: Attributes) -> Permission:
        """Return whether a user may do something. Raises UnreviewedError if the API server cannot be asked."""
        spec = review_spec(user, attributes)
        key = hashlib.sha256(msgspec.json.encode(spec)).digest()
        known = self._allowed.get(key) or self._denied.get(key)
        if known is not None and self._clock() - known.at <= FRESH:
            return known.permission
        try:
            return await self._reviews.run(key, lambda: self._ask(key, spec))
        except KubeError as error:
            raise UnreviewedError(f"permissions cannot be reviewed now: {error}") from error
        except TimeoutError as error:
            raise UnreviewedError(
                f"permissions cannot be reviewed now: the API server did not answer in {self._timeout:g} s"
            ) from error

    async def _ask(self, key: bytes, spec: Mapping[str, Any]) -> Permission:
        async with asyncio.timeout(self._timeout), self._gate:
            found = await self._authority.review_access(spec)
        allowed = found.allowed and not found.denied
        permission = Permission(allowed, found.reason or found.evaluation_error)
        (self._denied if allowed else self._allowed).drop(key)
        (self._allowed if allowed else self._denied).put(key, _Reviewed(self._clock(), permission))
        return permission


log = logs.get(__name__)


class Guard:
    """The access rules of one port.

    `front_proxy`: None if only tokens authenticate. `count`: called with the result of each request: `allowed`,
    `unauthenticated`, `forbidden` or `unavailable`.
    """

    def __init__(
        self,
        *,
        tokens: TokenReviewer[User],
        permissions: AccessReviewer,
        front_proxy: FrontProxy | None = None,
        count: Callable[[str], None] = lambda _result: None,
    ) -> None:
        self._tokens = tokens
        self._permissions = permissions
        self._front_proxy = front_proxy
        self._count = count
        self._limited = RateLimitedLogger(log, overflow="debug", rate=0.1, burst=10)
        self._required = "a bearer token is required"
        if front_proxy is not None:
            self._required += ", or the front proxy's client certificate with its user headers"

    def protect(
        self,
        handler: Handler,
        attributes_of: Callable[[Request], Attributes | None],
        refuse: Refuse,
    ) -> Handler:
        """Return a handler that calls `handler` for admitted requests only.

        `attributes_of`: what a request asks for; None for discovery. It may raise RejectedRequestError, as for an unknown path.
        """

        async def answer(request: Request) -> Response:
            try:
                if request.path not in HEALTH:
                    await self.admit(request, attributes_of(request))
            except RejectedRequestError as refused:
                return refuse(refused, request)
            return await handler(request)

        return answer

    async def admit(self, request: Request, attributes: Attributes | None) -> User:
        """Return the authorized user of a request. `attributes` None: every authenticated user is authorized.

        Raises RejectedRequestError: 401, 403, or 503 if the API server cannot be asked.
        """
        try:
            user = await self._authenticate(request)
            if attributes is not None and not user.unrestricted:
                await self._authorize(user, attributes)
        except RejectedRequestError as refused:
            self._refused(request, _RESULTS[refused.status], str(refused))
            raise
        except UnreviewedError as error:
            self._refused(request, "unavailable", str(error))
            status = HTTPStatus.SERVICE_UNAVAILABLE
            raise RejectedRequestError(status, str(error), headers=_RETRY) from error
        self._count("allowed")
        return user

    def _refused(self, request: Request, result: str, reason: str) -> None:
        self._count(result)
        write = log.debug if result == "forbidden" else self._limited.log
        write("request refused", result=result, client=request.peer.address, reason=reason)

    async def _authenticate(self, request: Request) -> User:
        token = _bearer(request)
        try:
            user = self._by_front_proxy(request, optional=bool(token))
            if user is None:
                user = await self._tokens.identify(token, request.peer.address)
        except (RequestHeaderError, InvalidTokenError) as error:
            raise _unauthorized(str(error)) from error
        if user.anonymous:
            raise _unauthorized("anonymous requests are not allowed")
        return user

    def _by_front_proxy(self, request: Request, *, optional: bool) -> User | None:
        """Return the user in the front proxy's headers; None if another credential has to authenticate the request.

        Raises RequestHeaderError if that is not `optional`, and for headers that cannot be trusted.
        """
        try:
            user = self._front_proxy.user_of(request) if self._front_proxy else None
        except RequestHeaderError:
            if optional:
                return None
            raise
        if user is None and not optional:
            raise RequestHeaderError(self._required)
        return user

    async def _authorize(self, user: User, attributes: Attributes) -> None:
        permission = await self._permissions.review(user, attributes)
        if not permission.allowed:
            sentence = denial(user, attributes, permission.reason)
            raise RejectedRequestError(HTTPStatus.FORBIDDEN, one_line(sentence))


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _unauthorized(reason: str) -> RejectedRequestError:
    return RejectedRequestError(
        HTTPStatus.UNAUTHORIZED, f"Unauthorized: {one_line(reason)}", headers=_CHALLENGE
    )


class DelegatedAccess:
    """Guards for the ports of one evaluator. `run()` must run while a guard uses the front proxy."""

    def __init__(
        self,
        api: Kube,
        metrics: Metrics,
        publish: Publish = unheard,
        part: Part | None = None,
    ) -> None:
        """`part` takes what the reading of the front proxy's configuration raises."""
        self._part = part
        self._api = api
        self._metrics = metrics
        self._tokens: TokenReviewer[User] = TokenReviewer(self._user_of, fresh=FRESH)
        self._permissions = AccessReviewer(api)
        self.front_proxy = FrontProxy(publish)

    def guard(self, port: str, *, front_proxy: bool) -> Guard:
        """Return the guard of a port. `front_proxy`: whether the API server forwards requests to it.

        Such a port needs `client_ca=front_proxy.client_ca` in its TLS settings, and `Server.drain` as a reaction to `FrontProxyChanged`.
        """
        counter = self._metrics.access_decisions
        for result in RESULTS:
            counter.labels(port, result)
        return Guard(
            tokens=self._tokens,
            permissions=self._permissions,
            front_proxy=self.front_proxy if front_proxy else None,
            count=lambda result: counter.labels(port, result).inc(),
        )

    def run(self) -> Coroutine[Any, Any, None]:
        """Watch the front proxy's configuration until cancelled."""
        watch = Reflector(
            self._api, CONFIG_MAP, decode_config_map, self.front_proxy, guard=self._part
        )
        return watch.run()

    async def _user_of(self, token: str) -> User:
        try:
            async with asyncio.timeout(_TIMEOUT):
                review = await self._api.review_token(token)
        except TimeoutError as error:
            raise KubeError(0, f"the API server did not answer in {_TIMEOUT:g} s") from error
        if not review.authenticated:
            raise InvalidTokenError(
                f"the token is not valid: {review.error or 'no reason was given'}"
            )
        return users.of_review(review.user)
