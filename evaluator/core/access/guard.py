"""Admits requests: authenticates the user, then authorizes what the request asks for.

Users are authenticated by the front proxy's headers, else by a bearer token. Health paths need neither. Discovery needs an
authenticated user. Everything else needs a permission, which is never assumed: without an answer of the API server, the
request fails with 503.
"""

from collections.abc import Callable
from http import HTTPStatus

from evaluator.core.access.front_proxy import FrontProxy
from evaluator.core.access.request_header import RequestHeaderError
from evaluator.core.access.subject_access import AccessReviewer
from evaluator.core.access.token_review import TokenReviewer
from evaluator.core.access.user import Attributes, InvalidTokenError, UnreviewedError, User, denial
from plimsoll import logs
from plimsoll.http.types import Handler, Refuse, RejectedRequestError, Request, Response
from plimsoll.logs.ratelimited import RateLimitedLogger
from plimsoll.text import one_line

RESULTS = ("allowed", "unauthenticated", "forbidden", "unavailable")

log = logs.get(__name__)

HEALTH = frozenset({"/healthz", "/livez", "/readyz"})

_RETRY = (("retry-after", "1"),)
_CHALLENGE = (("www-authenticate", "Bearer"),)


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


_RESULTS = {HTTPStatus.UNAUTHORIZED: "unauthenticated", HTTPStatus.FORBIDDEN: "forbidden"}


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _unauthorized(reason: str) -> RejectedRequestError:
    return RejectedRequestError(
        HTTPStatus.UNAUTHORIZED, f"Unauthorized: {one_line(reason)}", headers=_CHALLENGE
    )
