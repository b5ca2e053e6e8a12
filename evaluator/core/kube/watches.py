"""Reflectors of one evaluator: each decodes objects of a kind for a cache, and its activity tells whether that is stale."""

import asyncio
import hashlib
import math
import time
from collections.abc import Callable, Mapping, MutableMapping, Set
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.client import WATCH_GRACE, Kube
from evaluator.core.kube.reflector import LONGEST_WATCH, Reflector, Sink
from evaluator.core.kube.resources import ALL_PODS, APIResource
from evaluator.core.metrics import Metrics
from evaluator.core.model import pod_record
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod_record import Extra, PodRecord
from evaluator.core.policy import parse
from evaluator.core.policy.types import Policy
from evaluator.core.policy.vocabulary import NO_FEATURES, Vocabulary
from evaluator.core.signals import WatchResumed
from plimsoll import logs

log = logs.get(__name__)

T = TypeVar("T")


def _ignore() -> None:
    """Do nothing: the kind is always served."""


class _PolicyMeta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _PolicyObject(msgspec.Struct):
    """A TASPolicy with undecoded spec and status. Raw cannot be optional, hence the default of a JSON null."""

    metadata: _PolicyMeta
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"null")


_decode_policy_object = msgspec.json.Decoder(_PolicyObject).decode


def decode_policy(
    raw: msgspec.Raw,
    *,
    observe: bool = False,
    vocabulary: Vocabulary = NO_FEATURES,
    known: MutableMapping[bytes, Policy] | None = None,
    policies: Mapping[PolicyKey, Policy] = MappingProxyType({}),
) -> Policy:
    """Return the Policy of a TASPolicy's JSON. An oversized spec or status is not decoded. `observe`: --observe is set.

    `known`: the policies by a digest of what they were parsed from, added to here: most events change a status only.
    `policies`: those before this event, by key.
    """
    known = {} if known is None else known
    found = _decode_policy_object(raw)
    obj: dict[str, Any] = {"metadata": msgspec.to_builtins(found.metadata)}
    if len(found.status) <= parse.MOST_BYTES:
        obj["status"] = msgspec.json.decode(found.status)
    before = policies.get(PolicyKey(found.metadata.namespace, found.metadata.name))
    if before is not None:
        before = before.written or before
    if len(found.spec) > parse.MOST_BYTES:
        return parse.oversized(
            obj, len(found.spec), observe=observe, vocabulary=vocabulary, before=before
        )
    origin = msgspec.json.encode(found.metadata) + bytes(found.spec)
    same = known.get(digest := hashlib.sha256(origin).digest())
    if same is None or same.misspelt:  # what a misspelt policy means depends on its past
        obj["spec"] = msgspec.json.decode(found.spec)
        policy = parse.parse(obj, observe=observe, vocabulary=vocabulary, before=before)
        same = same if same == policy else policy
    known[digest] = policy = same.with_status(parse.status_of(obj))
    return policy


class Watches:
    """Makes the reflectors. `stale_after`: seconds without activity after which a cache is stale."""

    def __init__(
        self,
        api: Kube,
        cluster: ClusterCache,
        metrics: Metrics,
        *,
        stale_after: float,
    ) -> None:
        self._api = api
        self.signals = cluster.signals
        self._staleness = cluster.staleness
        self._metrics = metrics
        # Without events, opening a watch is the only sign that a copy is current: early enough, also if one end is lost.
        self._longest_watch = min(LONGEST_WATCH, stale_after / 2)
        self._grace = min(WATCH_GRACE, stale_after / 4)

    def reflector(
        self,
        resource: APIResource,
        decode: Callable[[msgspec.Raw], T],
        sink: Sink[T],
        unserved: Callable[[], None] = _ignore,
    ) -> Reflector[T]:
        """Return the reflector of a kind, to be run. `unserved` is called while the API server does not have it."""
        kind = resource.name
        self._metrics.cluster_age.labels(kind).set_function(partial(self._age, kind))
        return Reflector(
            self._api,
            resource,
            decode,
            sink,
            on_activity=partial(self._observed, kind),
            unserved=unserved,
            longest_watch=self._longest_watch,
            grace=self._grace,
            guard=self.signals.guard(f"watch of {kind}"),
        )

    def _age(self, kind: str) -> float:
        age = self._staleness.age(kind, time.monotonic())
        return math.nan if age is None else age

    def _observed(self, kind: str) -> None:
        if self._staleness.observed(kind, time.monotonic()):
            log.info("receiving %s from the API server again", kind)
            self.signals.publish(WatchResumed())


class AllPods:
    """The watch of all pods, for features that need more than the pods of policies; without one, it does not run.

    `cache` is fed while `reflector()` runs.
    """

    def __init__(self, watches: Watches) -> None:
        self.cache = PodCache(clock=time.monotonic, wall=time.time, signals=watches.signals)
        self.required = False
        self._watches = watches
        self._ignored: Set[str] = frozenset()
        self._labels = self._apart = False
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

    def keep_neighbours(self) -> PodCache:
        """Keep labels and `PodRecord.apart`, if another feature requires all pods; return their cache."""
        self._labels = self._apart = True
        return self.cache

    def reflector(self) -> Reflector[PodRecord]:
        """Return the watch, the same at each call; call it first when all features are wired."""
        if self._reflector is None:
            decode = partial(
                pod_record.decode,
                ignored=self._ignored,
                labels=self._labels,
                apart=self._apart,
                extra=self._extra,
            )
            self._reflector = self._watches.reflector(ALL_PODS, decode, self.cache.pods)
        return self._reflector

    def list_anew(self) -> "asyncio.Future[None]":
        """Request a new list of all pods; the result is done when it was received."""
        return self.reflector().list_anew()
