"""Finds the node of each recorded series as the evaluator does live."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from evaluator.core.model.node import Address, Node, NodeMeta, NodeStatus
from evaluator.core.model.node_index import Floats, NodeIndex
from evaluator.core.sources.formats.answer import NodeNames, named
from evaluator.tools.backtest.inputs.openmetrics import TextSeries
from evaluator.tools.replay.run import Resources
from evaluator.tools.replay.samples import Series

NODE_INFO, ALLOCATABLE = "kube_node_info", "kube_node_status_allocatable"
"""Series of kube-state-metrics: names and addresses of nodes, and their resources."""
_EXPORTER = "node_"
"""A metric is also found under node_exporter's name, as in a live query."""

Labels = Mapping[str, str]


class Joined(NamedTuple):
    """Which series are which metrics of which nodes: metric → (number of the series, position of the node)."""

    nodes: NodeIndex
    metrics: Mapping[str, Sequence[tuple[int, int]]]


def names_of(metrics: Collection[str]) -> frozenset[str]:
    """Return the series names to read for some metrics."""
    return frozenset(metrics) | {_EXPORTER + name for name in metrics} | {NODE_INFO, ALLOCATABLE}


def joined(series: Sequence[TextSeries], metrics: Collection[str], label: str) -> Joined:
    """Find the nodes of series. `label`: the label with a node's name; without it, `instance` counts."""
    infos = _infos(series)
    join = join_of(infos, label)
    by_metric: dict[str, dict[str, list[int]]] = {metric: {} for metric in metrics}
    for number, text_series in enumerate(series):
        node = join(text_series.labels)
        for metric in {
            text_series.name,
            text_series.name.removeprefix(_EXPORTER),
        } & by_metric.keys():
            if node is not None:
                by_metric[metric].setdefault(node, []).append(number)
    nodes = NodeIndex(sorted({labels["node"] for labels in infos}.union(*by_metric.values())))
    return Joined(
        nodes,
        {
            metric: [
                (number, nodes.position[node])
                for node, own in by_node.items()
                for number in _named(metric, own, series)
            ]
            for metric, by_node in by_metric.items()
        },
    )


def _named(metric: str, numbers: Sequence[int], series: Sequence[TextSeries]) -> Sequence[int]:
    """Return the series with the metric's own name, else those with node_exporter's."""
    return [number for number in numbers if series[number].name == metric] or numbers


def one_series(node: int, times: Floats, values: Floats) -> Series:
    """Return a series whose samples all have a value."""
    return Series(node, times, values, np.ones(len(times), np.int32))


def _infos(series: Iterable[TextSeries]) -> list[Labels]:
    return [
        text_series.labels
        for text_series in series
        if text_series.name == NODE_INFO and text_series.labels.get("node")
    ]


def join_of(infos: Sequence[Labels], label: str) -> Callable[[Labels], str | None]:
    """Return the function from a series' labels to its node. `infos`: labels of kube_node_info, if nodes are known."""
    if not infos:
        return lambda labels: named(labels, label)
    return NodeNames([_node(info) for info in infos], label).node


def _node(info: Labels) -> Node:
    address = Address("InternalIP", info.get("internal_ip", ""))
    return Node(NodeMeta(name=info["node"]), status=NodeStatus(addresses=[address]))


def allocatable(series: Iterable[TextSeries]) -> Resources:
    """Return the last allocatable resources of each node."""
    by_node: dict[str, dict[str, float]] = {}
    for text_series in series:
        if text_series.name == ALLOCATABLE and (node := text_series.labels.get("node")):
            by_node.setdefault(node, {})[text_series.labels.get("resource", "")] = (
                text_series.last_value
            )
    return by_node
