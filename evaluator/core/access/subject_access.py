"""Asks the API server whether users may do something, by SubjectAccessReview, with a cache."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from evaluator.core.access.review_limits import BoundedCache, SharedCalls
from evaluator.core.access.user import Attributes, UnreviewedError, User, review_spec
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.api_status import AccessReview

FRESH = 10.0
"""Seconds for which a result is reused, as in k8s.io/apiserver."""
_MOST = 10_000
"""Cached results of each kind, so that a flood of forbidden requests does not displace the permissions of others."""
_AT_ONCE = 16
_TIMEOUT = 5.0
"""Seconds."""


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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._timeout = timeout
        self._clock = clock
        self._allowed: BoundedCache[_Reviewed] = BoundedCache(_MOST)
        self._denied: BoundedCache[_Reviewed] = BoundedCache(_MOST)
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
