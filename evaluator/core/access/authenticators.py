"""Authenticate users: by reviews of bearer tokens, with a cache and with limits on invalid ones, or as the API server's front proxy
names them, by its CA and headers, which a ConfigMap publishes.

An aggregated API server believes the user in the headers of a request only if the client's certificate is the front proxy's.
"""

import asyncio
import hashlib
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec

from evaluator.core.access.review_limits import (
    BoundedCache,
    LimitedError,
    ReviewGate,
    ReviewLimits,
    SharedCalls,
)
from evaluator.core.access.user import (
    InvalidTokenError,
    RequestHeaderConfig,
    RequestHeaderError,
    UnreviewedError,
    User,
    parse_request_header,
)
from evaluator.core.kube.resources import APIResource
from evaluator.core.kube.transport import KubeError
from evaluator.core.signals import FrontProxyChanged, Publish, unheard
from plimsoll import logs
from plimsoll.http.tls import common_name
from plimsoll.http.types import Request
from plimsoll.text import one_line, redacted

log = logs.get(__name__)

T = TypeVar("T")

_MOST = 20_000
"""Cached results of each kind: a flood of invalid tokens must neither fill memory nor displace valid ones."""
_AT_ONCE = 8
_LONGEST_TOKEN = 16 << 10
"""Characters of a token; longer ones are rejected."""
CONFIG_MAP = APIResource(
    "extension-apiserver-authentication",
    "/api/v1/namespaces/kube-system/configmaps",
    field_selector="metadata.name=extension-apiserver-authentication",
)
"""Readable with the Role extension-apiserver-authentication-reader of kube-system."""


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    at: float
    identity: T | None = None
    error: str = ""


class TokenReviewer(Generic[T]):
    """Returns the identity of a token.

    `review`: asks the API server; raises InvalidTokenError or KubeError. `fresh`: seconds for which a result, positive or
    negative, is reused. `usable`: seconds for which a positive result counts while the API server is unavailable.
    """

    def __init__(
        self,
        review: Callable[[str], Awaitable[T]],
        *,
        fresh: float,
        usable: float = 0.0,
        limits: ReviewLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = review
        self._fresh = fresh
        self._usable = usable
        self._clock = clock
        self._limits = ReviewGate(limits or ReviewLimits(), clock)
        self._valid: BoundedCache[_Result[T]] = BoundedCache(_MOST)
        self._invalid: BoundedCache[_Result[T]] = BoundedCache(_MOST)
        self._reviews: SharedCalls[_Result[T]] = SharedCalls()
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def identify(self, token: str, address: str = "") -> T:
        """Return a token's identity; `address`: the IP address of its sender. Raises InvalidTokenError or UnreviewedError."""
        if len(token) > _LONGEST_TOKEN:
            raise InvalidTokenError("the token is too long")
        # A digest keeps no secret in memory longer than needed.
        key = hashlib.sha256(token.encode()).digest()
        known = self._valid.get(key) or self._invalid.get(key)
        if known is None or self._clock() - known.at > self._fresh:
            known = await self._review_once(key, token, known, address)
        if known.identity is None:
            raise InvalidTokenError(known.error)
        return known.identity

    async def _review_once(
        self, key: bytes, token: str, known: _Result[T] | None, address: str
    ) -> _Result[T]:
        """Review a token; concurrent requests with the same token share one review."""
        # Valid tokens are not limited: each costs one review a minute, and a flood of others must not end its stream.
        valid = known is not None and known.identity is not None
        try:
            result = await self._reviews.run(
                key,
                lambda: self._review(token) if valid else self._review_limited(token, address),
            )
        except LimitedError as error:
            raise UnreviewedError(str(error)) from error
        except KubeError as error:
            if known is not None and valid and self._clock() - known.at < self._usable:
                log.warning("token not reviewed, using the cached result", error=str(error))
                return known
            raise UnreviewedError(f"the token cannot be reviewed now: {error}") from error
        self._cache(key, result)
        return result

    def _cache(self, key: bytes, result: _Result[T]) -> None:
        valid = result.identity is not None
        (self._invalid if valid else self._valid).drop(key)
        (self._valid if valid else self._invalid).put(key, result)

    async def _review_limited(self, token: str, address: str) -> _Result[T]:
        async with self._limits.review(address) as review:
            result = await self._review(token)
            review.valid = result.identity is not None
            return result

    async def _review(self, token: str) -> _Result[T]:
        async with self._gate:
            try:
                return _Result(self._clock(), await self._ask(token))
            except InvalidTokenError as error:
                return _Result(self._clock(), error=one_line(redacted(str(error), token)))


log = logs.get(__name__)


class ConfigMap(msgspec.Struct):
    """The data of a ConfigMap."""

    data: dict[str, str] | None = None


decode_config_map = msgspec.json.Decoder(ConfigMap).decode


class FrontProxy:
    """Authenticates requests of the front proxy. Fed by a reflector of CONFIG_MAP; publishes that its CA changed."""

    def __init__(self, publish: Publish = unheard) -> None:
        self._publish = publish
        self.synced = False
        """Whether the ConfigMap was read, or is known not to exist."""
        self.config: RequestHeaderConfig | None = None

    def client_ca(self) -> str:
        """Return the CA of the front proxy's certificate in PEM; empty if there is none."""
        return self.config.client_ca if self.config else ""

    def replacing(self, objects: list[ConfigMap]) -> Iterator[None]:
        """Read the ConfigMap, or that it does not exist."""
        if objects:
            self.put(objects[0])
        else:
            self._load({})
        yield

    def put(self, obj: ConfigMap) -> None:
        """Read a changed ConfigMap; if it is unusable, the previous configuration stays."""
        try:
            self._load(obj.data or {})
        except RequestHeaderError as error:
            log.warning(
                "front proxy configuration not loaded, using the previous one", error=str(error)
            )

    def drop(self, _obj: ConfigMap) -> None:
        """Apply the deletion of the ConfigMap: without it, no client counts as the front proxy."""
        self._load({})

    def _load(self, data: dict[str, str]) -> None:
        found, before = parse_request_header(data), self.client_ca()
        if found is not None and (reason := _unusable(found.client_ca)):
            raise RequestHeaderError(f"requestheader-client-ca-file has no usable CA: {reason}")
        if found is None:
            log.warning(
                "the API server publishes no front proxy: requests through it are not authenticated",
                missing="requestheader-client-ca-file in kube-system/extension-apiserver-authentication",
            )
        self.config, self.synced = found, True
        if self.client_ca() != before:
            log.info("front proxy CA loaded", allowed_names=found.allowed_names if found else ())
            self._publish(FrontProxyChanged())

    def user_of(self, request: Request) -> User | None:
        """Return the user that the front proxy names; None if the request is not the front proxy's or names none.

        Raises RequestHeaderError for headers that cannot be read.
        """
        config, certificate = self.config, request.peer.certificate
        if config is None or certificate is None or _expiry(certificate["notAfter"]) < time.time():
            return None
        if not config.allows(common_name(certificate)):
            raise RequestHeaderError(
                f"the client certificate is for {common_name(certificate)!r}, which requestheader-allowed-names does not list"
            )
        return config.user(request)


def _unusable(client_ca: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=client_ca)
    except (ssl.SSLError, ValueError) as error:
        return str(error)
    return ""


@lru_cache(maxsize=64)
def _expiry(not_after: str) -> int:
    return ssl.cert_time_to_seconds(not_after)
