"""The watch of all pods, for features that need more than the pods of policies. Without one, it does not run."""

import asyncio
import time
from collections.abc import Set
from functools import partial

from evaluator.core.cache.pods import PodCache
from evaluator.core.kube import resources
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.watches import Watches
from evaluator.core.model import pod_record
from evaluator.core.model.pod_record import Extra, PodRecord


class AllPods:
    """All pods, once a feature requires them. `cache` is fed while `reflector()` runs."""

    def __init__(self, watches: Watches) -> None:
        self.cache = PodCache(clock=time.monotonic, wall=time.time)
        self.required = False
        self._watches = watches
        self._ignored: Set[str] = frozenset()
        self._labels = False
        self._extra: Extra | None = None
        self._reflector: Reflector[PodRecord] | None = None

    def require(
        self,
        *,
        ignored: Set[str] = frozenset(),
        labels: bool = False,
        extra: Extra | None = None,
    ) -> PodCache:
        """Watch all pods, and return their cache.

        `ignored`: extended resources to ignore. `labels`: keep labels of pods. `extra`: what to keep in `PodRecord.extra`,
        of one feature. Raises ValueError for a second one.
        """
        if extra is not None and self._extra is not None:
            raise ValueError("two features cannot share PodRecord.extra")
        self.required = True
        self._extra = extra or self._extra
        self._ignored |= ignored
        self._labels |= labels
        return self.cache

    def reflector(self) -> Reflector[PodRecord]:
        """Return the watch, the same at each call; call it first when all features are wired."""
        if self._reflector is None:
            decode = partial(
                pod_record.decode, ignored=self._ignored, labels=self._labels, extra=self._extra
            )
            self._reflector = self._watches.reflector(resources.ALL_PODS, decode, self.cache.pods)
        return self._reflector

    def list_anew(self) -> "asyncio.Future[None]":
        """Request a new list of all pods; the result is done when it was received."""
        return self.reflector().list_anew()
