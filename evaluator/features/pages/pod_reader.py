"""Reads single pods from the API server for /explain, at a limited rate: the port has no authentication."""

import asyncio
import time
from http import HTTPStatus

from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.pod import Pod
from evaluator.features.pages.sources import UnreadablePodError
from plimsoll.ratelimit import TokenBucket

_RATE, _BURST = 5.0, 10
"""Requests per second, and at once."""
_TIMEOUT = 5.0
"""Seconds."""


class PodReader:
    """Reads pods one by one."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._bucket = TokenBucket(_RATE, _BURST)

    async def read(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None if there is none of this name. Raises UnreadablePodError."""
        await asyncio.sleep(self._bucket.take(time.monotonic()))
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await self._kube.get_pod(namespace, name)
        except KubeError as failure:
            if failure.status == HTTPStatus.NOT_FOUND:
                return None
            raise UnreadablePodError(
                f"pod {namespace}/{name} cannot be read: {failure}"
            ) from failure
        except TimeoutError as failure:
            raise UnreadablePodError(
                f"pod {namespace}/{name} cannot be read: the API server did not answer in {_TIMEOUT:g} s"
            ) from failure
