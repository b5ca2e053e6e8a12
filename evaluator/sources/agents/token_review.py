"""Authenticates agents' ServiceAccount tokens by TokenReview, with a cache.

If the API server is unavailable, older results still count, so that agents that reconnect during its outage are not lost.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from evaluator.kubeapi.transport import KubeError
from evaluator.model.api_status import TokenReview
from evaluator.model.objects import Pod
from evaluator.sources.agents.identity import Bound, NotAnAgentError, bound
from evaluator.sources.agents.review_limits import LimitedError, ReviewGate, ReviewLimits
from plimsoll import logs
from plimsoll.redact import redacted
from plimsoll.text import one_line

log = logs.get(__name__)

_FRESH = 60.0
"""Seconds for which a result, positive or negative, is reused."""
_USABLE = 3600.0
"""Seconds for which a positive result counts while the API server is unavailable; kubelets renew tokens as often."""
_MOST = 20_000
"""Cached results of each kind: a flood of invalid tokens must neither fill memory nor displace valid ones."""
_AT_ONCE = 8
_LONGEST_TOKEN = 16 << 10
"""Characters of a token; longer ones are rejected."""


class Authority(Protocol):
    """The API server's methods needed here."""

    async def review_token(self, token: str, audience: str) -> TokenReview:
        """Return the review of a token. Raises KubeError."""
        ...

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Return a pod. Raises KubeError."""
        ...


class UnreviewedError(Exception):
    """The token could not be reviewed now; nothing is known about it."""


@dataclass(frozen=True, slots=True)
class _Result:
    at: float
    node: str = ""
    error: str = ""


class TokenAuthenticator:
    """Authenticates tokens of one audience and one ServiceAccount, `namespace/name`."""

    def __init__(
        self,
        authority: Authority,
        *,
        audience: str,
        account: str,
        limits: ReviewLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._audience = audience
        self._account = account
        self._clock = clock
        self._limits = ReviewGate(limits or ReviewLimits(), clock)
        self._valid: OrderedDict[bytes, _Result] = OrderedDict()
        self._invalid: OrderedDict[bytes, _Result] = OrderedDict()
        self._reviews: dict[bytes, asyncio.Task[_Result]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def node_of(self, token: str, peer: str = "") -> str:
        """Return the node that a token is bound to; `peer`: the sender in gRPC's format. Raises NotAnAgentError or
        UnreviewedError.
        """
        if not token:
            raise NotAnAgentError("no token in the request: `authorization: Bearer` is required")
        if len(token) > _LONGEST_TOKEN:
            raise NotAnAgentError("the token is too long")
        key = hashlib.sha256(
            token.encode()
        ).digest()  # keeps no secret in memory longer than needed
        known = self._valid.get(key) or self._invalid.get(key)
        if known is None or self._clock() - known.at > _FRESH:
            known = await self._review_once(key, token, known, peer)
        if known.error:
            raise NotAnAgentError(known.error)
        return known.node

    async def _review_once(
        self, key: bytes, token: str, known: _Result | None, peer: str
    ) -> _Result:
        """Review a token; concurrent requests with the same token share one review."""
        task = self._reviews.get(key)
        if task is None:
            # Valid tokens are not limited: each costs one review a minute, and a flood of others must not end its stream.
            limited = not (known is not None and known.node)
            work = self._review_within_limits(token, peer) if limited else self._review(token)
            task = self._reviews[key] = asyncio.create_task(work)
            task.add_done_callback(lambda _done: self._reviews.pop(key, None))
        try:
            result = await asyncio.shield(task)
        except LimitedError as error:
            raise UnreviewedError(str(error)) from error
        except KubeError as error:
            if known is not None and known.node and self._clock() - known.at < _USABLE:
                log.warning("token not reviewed, using the cached result", error=str(error))
                return known
            raise UnreviewedError(f"the token cannot be reviewed now: {error}") from error
        self._cache(key, result)
        return result

    def _cache(self, key: bytes, result: _Result) -> None:
        self._valid.pop(key, None)
        self._invalid.pop(key, None)
        results = self._valid if result.node else self._invalid
        results[key] = result
        if len(results) > _MOST:
            results.popitem(last=False)

    async def _review_within_limits(self, token: str, peer: str) -> _Result:
        async with self._limits.review(peer) as review:
            result = await self._review(token)
            review.valid = bool(result.node)
            return result

    async def _review(self, token: str) -> _Result:
        async with self._gate:
            review = await self._authority.review_token(token, self._audience)
            try:
                owner = bound(review, audience=self._audience, account=self._account)
                return _Result(self._clock(), node=owner.node or await self._node_of_pod(owner))
            except NotAnAgentError as error:
                return _Result(self._clock(), error=one_line(redacted(str(error), token)))

    async def _node_of_pod(self, owner: Bound) -> str:
        """Return the pod's node. API servers before 1.30 name only the pod of a token."""
        try:
            pod = await self._authority.get_pod(owner.namespace, owner.pod)
        except KubeError as error:
            if error.status == 404:
                raise NotAnAgentError(f"the token's pod {owner.pod} is gone") from error
            raise
        if pod.metadata.uid != owner.pod_uid or not pod.spec.node_name:
            raise NotAnAgentError(f"the token's pod {owner.pod} is gone")
        return pod.spec.node_name
