"""Answers requests for metrics of nodes and pods with MetricValueLists.

A pod has the reading of the node on which it runs.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.model.node import Node
from evaluator.core.model.node_index import Positions
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.signals import PodChanged
from evaluator.features.custom_metrics import formats
from evaluator.features.custom_metrics.formats import (
    NODES,
    PODS,
    MetricRequest,
    Selectors,
    matches,
)
from evaluator.features.custom_metrics.readings import (
    Current,
    CurrentReadings,
    EncodedBodies,
    Measured,
)
from plimsoll.fairlock import FairLock
from plimsoll.http.pieces import unhurried
from plimsoll.labels.selector import Labels, Requirement

_WAITING = 64
"""Requests that may wait while another list is made."""
_BATCH = 500
"""Objects that are read in one step, and items of a list that is made in one step: a millisecond."""

T = TypeVar("T")
P = TypeVar("P")


class PodsByNamespace:
    """The pods that use resources of a node, by namespace and name. `change` is a listener of the PodCache."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, PodRecord]] = {}

    def in_namespace(self, namespace: str) -> Mapping[str, PodRecord]:
        """Return the pods of a namespace by name."""
        return self._pods.get(namespace, {})

    def change(self, pod: PodChanged) -> None:
        """Replace a pod's previous state by its new state."""
        before, after = pod.before, pod.after
        if after is not None and after.holds:
            self._pods.setdefault(after.namespace, {})[after.name] = after
        elif before is not None and before.holds:
            pods = self._pods[before.namespace]
            del pods[before.name]
            if not pods:
                del self._pods[before.namespace]


class MetricNotFoundError(Exception):
    """No requested object has the metric; the message is for the client."""

    def __init__(self, request: MetricRequest, why: str = "") -> None:
        sentence = f"the server could not find the metric {request.metric} for {request.described}"
        super().__init__(f"{sentence}: {why}" if why else sentence)


@dataclass(frozen=True, slots=True)
class _Kind(Generic[T]):
    """How objects of one resource are read: their labels, the node whose reading they have, and the beginning of an item."""

    labels: Callable[[T], Labels]
    node: Callable[[T], str]
    described: Callable[[T], str]


_NODE: _Kind[Node] = _Kind(
    labels=lambda node: node.metadata.labels or {},
    node=lambda node: node.metadata.name,
    described=lambda node: formats.described("Node", node.metadata.name),
)
_POD: _Kind[PodRecord] = _Kind(
    labels=lambda pod: dict(pod.labels),
    node=lambda pod: pod.node,
    described=lambda pod: formats.described("Pod", pod.name, pod.namespace),
)


class MetricLists:
    """MetricValueLists of current readings. `left_out` is called with the number of values that a quantity cannot express."""

    def __init__(
        self,
        readings: CurrentReadings,
        cluster: ClusterCache,
        pods: PodsByNamespace,
        *,
        left_out: Callable[[int], None],
        clock: Callable[[], float],
    ) -> None:
        self._readings = readings
        self._cluster = cluster
        self._pods = pods
        self._left_out = left_out
        self._clock = clock
        self._bodies = EncodedBodies()
        self._making = FairLock(_WAITING)

    async def answer(self, request: MetricRequest, selectors: Selectors) -> Sequence[bytes]:
        """Return the list in pieces. Raises MetricNotFoundError, and TooManyWaitError if too many requests wait for lists."""
        if not selectors.match_readings:
            raise MetricNotFoundError(request, "readings have no labels for metricLabelSelector")
        if request.resource == NODES:
            if request.every and not selectors.of_objects:
                return await self._of_all_nodes(request)
            nodes = self._cluster.nodes.objects
            some = [*nodes.values()] if request.every else _one(nodes.get(request.name))
            return await self._list(request, selectors, _NODE, some)
        if request.resource == PODS and request.namespace:
            pods = self._pods.in_namespace(request.namespace)
            requested = [*pods.values()] if request.every else _one(pods.get(request.name))
            return await self._list(request, selectors, _POD, requested)
        raise MetricNotFoundError(request, "only nodes, and pods of a namespace, have metrics here")

    async def _of_all_nodes(self, request: MetricRequest) -> Sequence[bytes]:
        """Return the list of all nodes, which is kept for the next request."""
        current = self._readings.read(request.metric)
        self._left_out(current.not_finite(np.arange(len(current.nodes))))
        if (known := self._known(request, _all_measured(request, current))) is not None:
            return known
        async with self._making.hold():
            # Again: another request may have made the list.
            measured = _all_measured(request, self._readings.read(request.metric))
            if (known := self._known(request, measured)) is not None:
                return known
            names = map(measured.nodes.__getitem__, measured.positions.tolist())
            objects = (formats.described("Node", name) for name in names)
            made = await unhurried(_pieces(request, objects, measured))
            self._bodies.put((request.version, request.metric), measured, made, self._clock())
            return made

    def _known(self, request: MetricRequest, measured: Measured) -> Sequence[bytes] | None:
        return self._bodies.find((request.version, request.metric), measured, self._clock())

    async def _list(
        self, request: MetricRequest, selectors: Selectors, kind: _Kind[T], objects: Sequence[T]
    ) -> Sequence[bytes]:
        """Return the list of those objects that match and whose node has a usable reading."""
        current = self._readings.read(request.metric)
        size = max(1, _BATCH // selectors.terms)
        batches = _batches(current, kind, objects, selectors.of_objects, size)
        done = list(batches) if len(objects) <= size else await self._unhurried(batches)
        self._left_out(sum(batch.left_out for batch in done))
        having = [*itertools.chain.from_iterable(batch.having for batch in done)]
        if not having:
            matching = [*itertools.chain.from_iterable(batch.matching for batch in done)]
            raise MetricNotFoundError(request, _absence(request, kind, matching, current))
        measured = current.measured(np.concatenate([batch.positions for batch in done]))
        made = _pieces(request, map(kind.described, having), measured)
        return list(made) if len(having) <= _BATCH else await self._unhurried(made)

    async def _unhurried(self, pieces: Iterable[P]) -> list[P]:
        """Make pieces while no other request does. Raises TooManyWaitError."""
        async with self._making.hold():
            return await unhurried(pieces)


@dataclass(frozen=True, slots=True)
class _Batch(Generic[T]):
    """Some objects: those that match, and among them those whose node has a usable reading, with the nodes' positions.

    `left_out`: the number of those whose value is not finite.
    """

    matching: Sequence[T]
    having: Sequence[T]
    positions: Positions
    left_out: int


def _batches(
    current: Current,
    kind: _Kind[T],
    objects: Sequence[T],
    selector: Sequence[Requirement],
    size: int,
) -> Iterator[_Batch[T]]:
    usable = current.usable
    for begin in range(0, len(objects), size):
        some = objects[begin : begin + size]
        matching = (
            [item for item in some if matches(selector, kind.labels(item))] if selector else some
        )
        positions = current.nodes.find([kind.node(item) for item in matching])
        known = (positions >= 0).nonzero()[0]
        having = known[usable[positions[known]]]
        yield _Batch(
            matching,
            [matching[number] for number in having.tolist()],
            positions[having],
            current.not_finite(positions[known]),
        )


def _all_measured(request: MetricRequest, current: Current) -> Measured:
    """Return the usable readings of all nodes. Raises MetricNotFoundError if there are none."""
    positions = current.usable.nonzero()[0]
    if not positions.size:
        raise MetricNotFoundError(request, current.column.fault)
    return current.measured(positions)


def _one(item: T | None) -> list[T]:
    return [] if item is None else [item]


def _pieces(request: MetricRequest, objects: Iterator[str], measured: Measured) -> Iterator[bytes]:
    return formats.value_list(
        request.version,
        request.metric,
        objects,
        measured.seconds.tolist(),
        measured.values.tolist(),
    )


def _absence(request: MetricRequest, kind: _Kind[T], objects: Sequence[T], current: Current) -> str:
    """Return why no object has a usable reading, as a phrase."""
    if not objects:
        return "no object matches" if request.every else "there is no such object"
    if len(objects) > 1:
        return current.column.fault
    node = kind.node(objects[0])
    position = current.nodes.position.get(node, -1)
    if position < 0:
        return f"node {node} is not known"
    why = current.absence(position)
    return why if request.resource == NODES else f"on node {node}, {why}"
