"""The parts of access that an evaluator's ports share: caches of reviews, and the front proxy."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from evaluator.core.access import front_proxy
from evaluator.core.access import user as users
from evaluator.core.access.front_proxy import CONFIG_MAP, FrontProxy
from evaluator.core.access.guard import RESULTS, AccessReviewer, Guard
from evaluator.core.access.token_review import TokenReviewer
from evaluator.core.access.user import InvalidTokenError, User
from evaluator.core.kube.client import Kube
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.transport import KubeError
from evaluator.core.metrics import Metrics

_FRESH = 10.0
"""Seconds for which a token's user is reused, as in k8s.io/apiserver."""
_TIMEOUT = 5.0
"""Seconds."""


class DelegatedAccess:
    """Guards for the ports of one evaluator. `run()` must run while a guard uses the front proxy."""

    def __init__(self, api: Kube, metrics: Metrics) -> None:
        self._api = api
        self._metrics = metrics
        self._tokens: TokenReviewer[User] = TokenReviewer(self._user_of, fresh=_FRESH)
        self._permissions = AccessReviewer(api)
        self.front_proxy = FrontProxy()

    def guard(self, port: str, *, front_proxy: bool) -> Guard:
        """Return the guard of a port. `front_proxy`: whether the API server forwards requests to it.

        Such a port needs `client_ca=front_proxy.client_ca` in its TLS settings, and Server.drain in `front_proxy.listeners`.
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
        return Reflector(self._api, CONFIG_MAP, front_proxy.decode, self.front_proxy).run()

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
