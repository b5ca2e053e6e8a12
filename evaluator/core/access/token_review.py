"""Reviews bearer tokens, with a cache and with limits on invalid ones."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from evaluator.core.access.review_limits import (
    BoundedCache,
    LimitedError,
    ReviewGate,
    ReviewLimits,
    SharedCalls,
)
from evaluator.core.access.user import InvalidTokenError, UnreviewedError
from evaluator.core.kube.transport import KubeError
from plimsoll import logs
from plimsoll.text import one_line, redacted

log = logs.get(__name__)

T = TypeVar("T")

_MOST = 20_000
"""Cached results of each kind: a flood of invalid tokens must neither fill memory nor displace valid ones."""
_AT_ONCE = 8
_LONGEST_TOKEN = 16 << 10
"""Characters of a token; longer ones are rejected."""


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
