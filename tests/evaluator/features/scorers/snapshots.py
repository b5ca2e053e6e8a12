"""Random clusters and pods for the properties of scorers, and the same cluster in another node order."""

import dataclasses
import itertools
from types import MappingProxyType

import numpy as np
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import ClusterSnapshot, NodeUsageArrays

ANNOTATIONS = (
    *("mean-free-cpu", "std-free-cpu", "forcasted-free-cpu"),
    *("mean-free-memory", "std-free-memory", "forcasted-free-memory"),
    "congestion-factor",
)
MOST_NODES = 12

_ODD = (0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1e-9, 100.0, 2**53, 1e18, -1e18, 1.7e308)
_UNKNOWN = (float("nan"), float("inf"), float("-inf"))

amounts = st.one_of(
    st.floats(0, 1e6),
    st.floats(0, 2.0**40),
    st.sampled_from((*_ODD, *_UNKNOWN)),
    st.floats(allow_nan=True, allow_infinity=True),
)
"""A number as any user may have written it."""
requests = st.one_of(st.floats(0, 1e6), st.sampled_from((0.0, 1.0, 16.0, 1e9, 1e12, 1e18)))
"""Requests that the API server accepts: not negative and not infinite."""


def floats(count, values=amounts):
    """Read-only numbers per node, so that writes to a snapshot are detected."""
    return st.lists(values, min_size=count, max_size=count).map(fixed)


def fixed(values):
    found = np.array(values, dtype=float)
    found.setflags(write=False)
    return found


def by(keys, values):
    """Values for some of the keys."""
    return st.dictionaries(st.sampled_from(list(keys)), values).map(MappingProxyType)


@st.composite
def views(draw, least=0):
    """Any cluster: empty, one node, many, with any known and unknown values."""
    count = draw(st.integers(least, MOST_NODES))
    column = floats(count)
    usage = st.builds(NodeUsageArrays, free=column, deviation=column, forecast=column)
    return ClusterSnapshot(
        nodes=NodeIndex(f"node-{number}" for number in range(count)),
        allocatable=draw(by(Resource, column)),
        requested=draw(by(Resource, column)),
        recently_bound=draw(by(Resource, column)),
        usage=draw(by((Resource.CPU, Resource.MEMORY), usage)),
        congestion=draw(st.none() | column | floats(count, st.floats(0, 1))),
        annotations=draw(by(ANNOTATIONS, column)),
    )


@st.composite
def likely_views(draw, least=1):
    """A typical cluster: nodes with capacity and measurements, some full and some unknown."""
    count = draw(st.integers(least, MOST_NODES))

    def shares(high=1.0):
        return np.array(draw(st.lists(st.floats(0, high), min_size=count, max_size=count)))

    heard = np.where(shares() < 0.9, 1.0, np.nan)
    sizes = {
        Resource.CPU: 1000.0 * draw(st.integers(1, 256)),
        Resource.MEMORY: 2.0**30 * draw(st.integers(1, 4096)),
        Resource.PODS: 110.0,
    }
    usage = {
        resource: NodeUsageArrays(
            free=fixed(heard * size * shares()),
            deviation=fixed(heard * size * shares(0.4)),
            forecast=fixed(np.where(shares() < 0.5, size * shares(), np.nan)),
        )
        for resource, size in itertools.islice(sizes.items(), 2)
    }
    return ClusterSnapshot(
        nodes=NodeIndex(f"node-{number}" for number in range(count)),
        allocatable={resource: fixed(np.full(count, size)) for resource, size in sizes.items()},
        requested={resource: fixed(size * shares()) for resource, size in sizes.items()},
        recently_bound={resource: fixed(size * shares(0.2)) for resource, size in sizes.items()},
        usage=usage,
        congestion=fixed(heard * shares()),
        annotations={"congestion-factor": fixed(np.round(150 * shares()))},
    )


pods = st.builds(
    PodView,
    name=st.just("default/web-1"),
    uid=st.sampled_from(("", "4b1d")),
    kind=st.sampled_from(("", "web")),
    requests=by(Resource, requests),
)
"""Pods with and without requests."""


def reordered(value, order):
    """A snapshot with its nodes in this order; all arrays over nodes are permuted."""
    if isinstance(value, NodeIndex):
        return NodeIndex(value[place] for place in order)
    if isinstance(value, np.ndarray):
        return fixed(value[order])
    if isinstance(value, MappingProxyType | dict):
        return {key: reordered(one, order) for key, one in value.items()}
    if isinstance(value, ClusterSnapshot | NodeUsageArrays):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(
            value, **{name: reordered(getattr(value, name), order) for name in names}
        )
    return value
