"""Makes a recording of series: finds the node of each series as the evaluator does live."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from evaluator.backtest.run import Resources
from evaluator.backtest.samples import Recording, Series, merged
from evaluator.cli.backtest.openmetrics import TextSeries
from evaluator.model.node import Address, Node, NodeMeta, NodeStatus
from evaluator.model.node_index import Floats, NodeIndex
from evaluator.sources.formats.node_join import NodeNames, named

NODE_INFO, ALLOCATABLE = "kube_node_info", "kube_node_status_allocatable"
"""Series of kube-state-metrics: names and addresses of nodes, and their resources."""
_EXPORTER = "node_"
"""A metric is also found under node_exporter's name, as in a live query."""

Labels = Mapping[str, str]


class Recorded(NamedTuple):
    """A recording, the allocatable resources of its nodes, and the number of series that belong to no node."""

    recording: Recording
    allocatable: Resources
    unjoined: int


def names_of(metrics: Collection[str]) -> frozenset[str]:
    """Return the series names to read for some metrics."""
    return frozenset(metrics) | {_EXPORTER + name for name in metrics} | {NODE_INFO, ALLOCATABLE}


def recorded(
    series: Sequence[TextSeries], metrics: Collection[str], label: str, stale_after: float
) -> Recorded:
    """Return the recording of some metrics. `label`: the label with a node's name; without it, `instance` counts."""
    join = join_of(_infos(series), label)
    joined: dict[str, dict[str, list[TextSeries]]] = {metric: {} for metric in metrics}
    unjoined = 0
    for one in series:
        node = join(one.labels)
        for metric in {one.name, one.name.removeprefix(_EXPORTER)} & joined.keys():
            if node is None:
                unjoined += 1
            else:
                joined[metric].setdefault(node, []).append(one)
    known = {labels["node"] for labels in _infos(series)}
    nodes = NodeIndex(sorted(known.union(*joined.values())))
    found = {
        metric: merged([*_series(metric, by_node, nodes)], stale_after)
        for metric, by_node in joined.items()
    }
    return Recorded(Recording(nodes, found), _allocatable(series), unjoined)


def _series(
    metric: str, by_node: Mapping[str, list[TextSeries]], nodes: NodeIndex
) -> Iterable[Series]:
    for node, own in by_node.items():
        exact = [one for one in own if one.name == metric]
        for one in exact or own:
            times, values = np.array(one.times), np.array(one.values)
            if len(times) > 1 and (np.diff(times) < 0).any():  # several files in any order
                order = np.argsort(times, kind="stable")
                times, values = times[order], values[order]
            yield one_series(nodes.position[node], times, values)


def one_series(node: int, times: Floats, values: Floats) -> Series:
    """Return a series whose samples all have a value."""
    return Series(node, times, values, np.ones(len(times), np.int32))


def _infos(series: Iterable[TextSeries]) -> list[Labels]:
    return [one.labels for one in series if one.name == NODE_INFO and one.labels.get("node")]


def join_of(infos: Sequence[Labels], label: str) -> Callable[[Labels], str | None]:
    """Return the function from a series' labels to its node. `infos`: labels of kube_node_info, if nodes are known."""
    if not infos:
        return lambda labels: named(labels, label)
    return NodeNames([_node(info) for info in infos], label).node


def _node(info: Labels) -> Node:
    address = Address("InternalIP", info.get("internal_ip", ""))
    return Node(NodeMeta(name=info["node"]), status=NodeStatus(addresses=[address]))


def _allocatable(series: Iterable[TextSeries]) -> Resources:
    """Return the last allocatable resources of each node."""
    found: dict[str, dict[str, float]] = {}
    for one in series:
        if one.name == ALLOCATABLE and one.values and (node := one.labels.get("node")):
            found.setdefault(node, {})[one.labels.get("resource", "")] = one.values[-1]
    return found
