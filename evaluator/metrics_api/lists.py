"""Answers requests for metrics of nodes and pods with MetricValueLists.

A pod has the reading of the node on which it runs.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from evaluator.cache.cluster import ClusterCache
from evaluator.cache.pods_by_namespace import PodsByNamespace
from evaluator.metrics_api.bodies import EncodedBodies, Measured
from evaluator.metrics_api.formats import values
from evaluator.metrics_api.formats.paths import NODES, PODS, MetricRequest
from evaluator.metrics_api.readings import Current, CurrentReadings
from evaluator.metrics_api.requests import Selectors, matches
from evaluator.model.node import Node
from evaluator.model.pod_record import PodRecord
from plimsoll.fairlock import FairLock
from plimsoll.http.pieces import unhurried
from plimsoll.labels.selector import Labels

_WAITING = 64
"""Requests that may wait while another list is made."""
_MATCHED = 500
"""Objects whose labels are matched in one step: well below a millisecond."""
_SHORT = 200
"""Items of a list that is made in one step."""

T = TypeVar("T")


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
    described=lambda node: values.described("Node", node.metadata.name),
)
_POD: _Kind[PodRecord] = _Kind(
    labels=lambda pod: dict(pod.labels),
    node=lambda pod: pod.node,
    described=lambda pod: values.described("Pod", pod.name, pod.namespace),
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
            pods = self._pods.of(request.namespace)
            found = [*pods.values()] if request.every else _one(pods.get(request.name))
            return await self._list(request, selectors, _POD, found)
        raise MetricNotFoundError(request, "only nodes, and pods of a namespace, have metrics here")

    async def _of_all_nodes(self, request: MetricRequest) -> Sequence[bytes]:
        """Return the list of all nodes, which is kept for the next request."""
        if (known := self._known(request, self._measured(request))) is not None:
            return known
        async with self._making.hold():
            measured = self._measured(request)  # again: another request may have made the list
            if (known := self._known(request, measured)) is not None:
                return known
            names = map(measured.nodes.__getitem__, measured.positions.tolist())
            objects = (values.described("Node", name) for name in names)
            made = await unhurried(_pieces(request, objects, measured))
            self._bodies.put((request.version, request.metric), measured, made, self._clock())
            return made

    def _known(self, request: MetricRequest, measured: Measured) -> Sequence[bytes] | None:
        return self._bodies.find((request.version, request.metric), measured, self._clock())

    def _measured(self, request: MetricRequest) -> Measured:
        current = self._readings.read(request.metric)
        positions = current.usable.nonzero()[0]
        self._left_out(current.not_finite(np.arange(len(current.nodes))))
        if not positions.size:
            raise MetricNotFoundError(request, current.column.fault)
        return current.measured(positions)

    async def _list(
        self, request: MetricRequest, selectors: Selectors, kind: _Kind[T], objects: Sequence[T]
    ) -> Sequence[bytes]:
        """Return the list of those objects that match and whose node has a usable reading."""
        objects = await _matching(objects, kind.labels, selectors)
        current = self._readings.read(request.metric)
        positions = current.nodes.find([kind.node(one) for one in objects])
        self._left_out(current.not_finite(positions[positions >= 0]))
        having = ((positions >= 0) & current.usable[positions]).nonzero()[0]
        if not having.size:
            raise MetricNotFoundError(request, _absence(request, kind, objects, current))
        found = (kind.described(objects[number]) for number in having.tolist())
        made = _pieces(request, found, current.measured(positions[having]))
        if len(having) <= _SHORT:
            return list(made)
        async with self._making.hold():
            return await unhurried(made)


def _one(found: T | None) -> list[T]:
    return [] if found is None else [found]


async def _matching(
    objects: Sequence[T], labels: Callable[[T], Labels], selectors: Selectors
) -> Sequence[T]:
    """Return the objects that match the label selector, yielding to the event loop if there are many."""
    selector = selectors.of_objects

    def batches() -> Iterator[list[T]]:
        for begin in range(0, len(objects), _MATCHED):
            batch = objects[begin : begin + _MATCHED]
            yield [one for one in batch if matches(selector, labels(one))]

    if not selector:
        return objects
    found = list(batches()) if len(objects) <= _MATCHED else await unhurried(batches())
    return [*itertools.chain.from_iterable(found)]


def _pieces(request: MetricRequest, objects: Iterator[str], measured: Measured) -> Iterator[bytes]:
    return values.pieces(
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
