"""Authenticates agents' ServiceAccount tokens by TokenReview.

If the API server is unavailable, older results still count, so that agents that reconnect during its outage are not lost.
"""

import time
from collections.abc import Callable
from typing import Protocol

from evaluator.core.access.review_limits import ReviewLimits
from evaluator.core.access.token_review import TokenReviewer
from evaluator.core.access.user import InvalidTokenError
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.api_status import TokenReview
from evaluator.core.model.pod import Pod
from evaluator.core.sources.agents.identity import Bound, address, bound

_FRESH = 60.0
"""Seconds for which a result, positive or negative, is reused."""
_USABLE = 3600.0
"""Seconds for which a positive result counts while the API server is unavailable; kubelets renew tokens as often."""


class Authority(Protocol):
    """The API server's methods needed here."""

    async def review_token(self, token: str, audience: str) -> TokenReview:
        """Return the review of a token. Raises KubeError."""
        ...

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Return a pod. Raises KubeError."""
        ...


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
        self._reviewer: TokenReviewer[str] = TokenReviewer(
            self._review, fresh=_FRESH, usable=_USABLE, limits=limits, clock=clock
        )

    async def node_of(self, token: str, peer: str = "") -> str:
        """Return the node that a token is bound to; `peer`: the sender in gRPC's format. Raises InvalidTokenError or
        UnreviewedError.
        """
        if not token:
            raise InvalidTokenError("no token in the request: `authorization: Bearer` is required")
        return await self._reviewer.identify(token, address(peer))

    async def _review(self, token: str) -> str:
        review = await self._authority.review_token(token, self._audience)
        owner = bound(review, audience=self._audience, account=self._account)
        return owner.node or await self._node_of_pod(owner)

    async def _node_of_pod(self, owner: Bound) -> str:
        """Return the pod's node. API servers before 1.30 name only the pod of a token."""
        try:
            pod = await self._authority.get_pod(owner.namespace, owner.pod)
        except KubeError as error:
            if error.status == 404:
                raise InvalidTokenError(f"the token's pod {owner.pod} is gone") from error
            raise
        if pod.metadata.uid != owner.pod_uid or not pod.spec.node_name:
            raise InvalidTokenError(f"the token's pod {owner.pod} is gone")
        return pod.spec.node_name
