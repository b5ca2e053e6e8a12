"""Asks the API server which node a ServiceAccount token is bound to, and remembers the answer for a while.

When the API server cannot be asked, an older answer still counts: agents that connect again during its outage must not
be lost with it.
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
"""Seconds for which an answer, yes or no, is not asked for again."""
_USABLE = 3600.0
"""Seconds for which a yes counts while the API server cannot be asked; kubelets renew tokens as often."""
_MOST = 20_000
"""Answers kept of each kind, yes and no: a flood of made-up tokens must neither fill the memory nor displace a yes."""
_AT_ONCE = 8
_LONGEST = 16 << 10
"""Characters of a token: what is longer is none."""


class Authority(Protocol):
    """What of the API server is needed here."""

    async def review_token(self, token: str, audience: str) -> TokenReview:
        """Whose token it is. Raises KubeError."""
        ...

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """A pod. Raises KubeError."""
        ...


class UnreviewedError(Exception):
    """The API server could not be asked, or not now: nothing is known about the token."""


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    node: str = ""
    why_not: str = ""


class TokenAuthenticator:
    """Tokens of one audience and of one ServiceAccount, `namespace/name`."""

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
        self._valid: OrderedDict[bytes, _Answer] = OrderedDict()
        self._invalid: OrderedDict[bytes, _Answer] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[_Answer]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def node_of(self, token: str, peer: str = "") -> str:
        """The node that a token is bound to; `peer` is who sent it, as gRPC has it. Raises NotAnAgentError, or UnreviewedError."""
        if not token:
            raise NotAnAgentError("no token was sent: an `authorization: Bearer` is needed")
        if len(token) > _LONGEST:
            raise NotAnAgentError("the token is too long to be one")
        key = hashlib.sha256(token.encode()).digest()  # no secrets in memory for longer than needed
        known = self._valid.get(key) or self._invalid.get(key)
        if known is None or self._clock() - known.at > _FRESH:
            known = await self._ask_once(key, token, known, peer)
        if known.why_not:
            raise NotAnAgentError(known.why_not)
        return known.node

    async def _ask_once(self, key: bytes, token: str, known: _Answer | None, peer: str) -> _Answer:
        """Ask; whoever comes with the same token meanwhile shares the answer."""
        task = self._asking.get(key)
        if task is None:
            # A token that was valid is not limited: it costs a review a minute, and a flood must not end its stream.
            limited = not (known is not None and known.node)
            asking = self._ask_within_limits(token, peer) if limited else self._ask(token)
            task = self._asking[key] = asyncio.create_task(asking)
            task.add_done_callback(lambda _done: self._asking.pop(key, None))
        try:
            answer = await asyncio.shield(task)
        except LimitedError as error:
            raise UnreviewedError(str(error)) from error
        except KubeError as error:
            if known is not None and known.node and self._clock() - known.at < _USABLE:
                log.warning("token not reviewed, the answer before counts", error=str(error))
                return known
            raise UnreviewedError(f"the token cannot be reviewed now: {error}") from error
        self._keep(key, answer)
        return answer

    def _keep(self, key: bytes, answer: _Answer) -> None:
        self._valid.pop(key, None)
        self._invalid.pop(key, None)
        answers = self._valid if answer.node else self._invalid
        answers[key] = answer
        if len(answers) > _MOST:
            answers.popitem(last=False)

    async def _ask_within_limits(self, token: str, peer: str) -> _Answer:
        async with self._limits.review(peer) as review:
            answer = await self._ask(token)
            review.valid = bool(answer.node)
            return answer

    async def _ask(self, token: str) -> _Answer:
        async with self._gate:
            review = await self._authority.review_token(token, self._audience)
            try:
                owner = bound(review, audience=self._audience, account=self._account)
                return _Answer(self._clock(), node=owner.node or await self._node_of_pod(owner))
            except NotAnAgentError as error:
                return _Answer(self._clock(), why_not=one_line(redacted(str(error), token)))

    async def _node_of_pod(self, owner: Bound) -> str:
        """Where the pod runs. API servers before 1.30 say no more of a token than its pod."""
        try:
            pod = await self._authority.get_pod(owner.namespace, owner.pod)
        except KubeError as error:
            if error.status == 404:
                raise NotAnAgentError(f"the token's pod {owner.pod} is gone") from error
            raise
        if pod.metadata.uid != owner.pod_uid or not pod.spec.node_name:
            raise NotAnAgentError(f"the token's pod {owner.pod} is gone")
        return pod.spec.node_name
