"""Where a backtest reads from: the range and how it is written, the nodes, and the recording in consecutive parts, whose
series are joined with nodes as the evaluator does live.

Times of a range: RFC 3339, Unix seconds, `now`, or a time ago such as 7d.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node import Address, Node, NodeMeta, NodeStatus
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.readings.tables import NEVER_HAD
from evaluator.core.sources.answer import NodeNames, named
from lab.backtest.inputs.openmetrics import TextSeries
from lab.interface import Period
from lab.replay.run import Resources
from lab.replay.samples import Recording, Series
from plimsoll import durations, rfc3339
from plimsoll.durations import format_duration
from plimsoll.metric_names import spellings
from plimsoll.recording.series import ABSENT, METRIC
from plimsoll.text import SentenceError, shown

_DAYS = re.compile(r"(?:(\d{1,5})w)?(?:(\d{1,5})d)?(.*)", re.ASCII)
_UNIX = re.compile(r"\d{9,11}(\.\d+)?", re.ASCII)
_MOST_STEPS = 4_000_000
"""Steps of a range: almost two years of 15 s. More take gigabytes, and often come from one sample with a wrong time."""


def span(text: str) -> float:
    """Return a duration as seconds: 15s, 36h, 7d, 2w, 1d12h. Raises ValueError."""
    match = _DAYS.fullmatch(text)
    weeks, days, rest = match.groups() if match else (None, None, text)
    if not rest and not (weeks or days):
        raise ValueError(f"not a duration: {shown(text)} (write it like 15s, 12h or 7d)")
    seconds = durations.duration(rest) if rest else 0.0
    return int(weeks or 0) * 7 * 86400 + int(days or 0) * 86400 + seconds


def moment(text: str, end: float) -> float:
    """Return a time as Unix seconds; a duration counts back from `end`. Raises ValueError."""
    if text == "now":
        return end
    if _UNIX.fullmatch(text):
        return float(text)
    try:
        return rfc3339.parse(text)
    except ValueError:
        pass
    try:
        return end - span(text)
    except ValueError as error:
        raise ValueError(
            f"not a time: {shown(text)} (write it like 2026-11-15T00:00:00Z, 1763164800, or 7d for seven days before the end)"
        ) from error


class BacktestError(SentenceError):
    """The backtest cannot run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to read: metrics, and the range as written in the arguments.

    `warm_up`: seconds before the range that its first decisions depend on.
    """

    metrics: Collection[str]
    begin: str
    end: str
    step: float
    stale_after: float
    warm_up: float
    node_label: str

    def period(self, first: float | None, last: float, *, ends: str = "") -> Period:
        """Return the range. `first` and `last`: the defaults of its ends; `ends`: the samples at these times.

        Raises BacktestError.
        """
        try:
            end = moment(self.end, last) if self.end else last
            begin = moment(self.begin, end) if self.begin else first
        except ValueError as error:
            raise BacktestError(f"--from or --to: {error}") from error
        if begin is None:
            raise BacktestError("--from is missing: say how far back to go, such as --from 7d")
        if not begin < end:
            raise BacktestError("--from is not before --to: the range is empty")
        if end - begin > _MOST_STEPS * self.step:
            raise BacktestError(
                f"the range has {(end - begin) / self.step:,.0f} steps of {format_duration(self.step)}, more than "
                f"{_MOST_STEPS:,}: shorten it with --from and --to, or use a longer --step{ends}"
            )
        return Period(begin, end)


class Source(Protocol):
    """A recording in consecutive parts."""

    @property
    def period(self) -> Period:
        """The range."""
        ...

    @property
    def start(self) -> float:
        """When the replay begins (Unix seconds)."""
        ...

    @property
    def nodes(self) -> NodeIndex:
        """All nodes of the recording."""
        ...

    @property
    def allocatable(self) -> Resources:
        """The resources of nodes, if known."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings of the source about what was read so far."""
        ...

    @property
    def sources(self) -> int:
        """How many sources of readings each part has."""
        ...

    def parts(self) -> Iterator[tuple[Recording, float]]:
        """Yield consecutive parts and their ends (Unix seconds). Raises BacktestError."""
        ...

    def close(self) -> None:
        """Close connections and files."""
        ...


NODE_INFO, ALLOCATABLE = "kube_node_info", "kube_node_status_allocatable"
"""Series of kube-state-metrics: names and addresses of nodes, and their resources."""

Labels = Mapping[str, str]


class Joined(NamedTuple):
    """Which series are which metrics of which nodes: metric → (number of the series, position of the node).

    `absent`: the numbers of series that say that a node never had the metric.
    """

    nodes: NodeIndex
    metrics: Mapping[str, Sequence[tuple[int, int]]]
    absent: Set[int]


def names_of(metrics: Collection[str]) -> frozenset[str]:
    """Return the series names to read for some metrics."""
    return frozenset(name for metric in metrics for name in spellings(metric)) | {
        NODE_INFO,
        ALLOCATABLE,
        ABSENT,
    }


def joined(series: Sequence[TextSeries], metrics: Collection[str], label: str) -> Joined:
    """Find the nodes of series. `label`: the label with a node's name; without it, `instance` counts."""
    infos = _infos(series)
    join = join_of(infos, label)
    by_metric: dict[str, dict[str, list[int]]] = {metric: {} for metric in metrics}
    by_name = metrics_by_name(metrics)
    for number, text_series in enumerate(series):
        node = join(text_series.labels)
        for metric in by_name.get(_metric_of(text_series), ()):
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
        {number for number, text_series in enumerate(series) if text_series.name == ABSENT},
    )


def _metric_of(text_series: TextSeries) -> str:
    """Return the name of the metric that a series is about."""
    is_absent = text_series.name == ABSENT
    return text_series.labels.get(METRIC, "") if is_absent else text_series.name


def metrics_by_name(metrics: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the metrics that series may be, by the series' name."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        for name in spellings(metric):
            found.setdefault(name, []).append(metric)
    return found


def _named(metric: str, numbers: Sequence[int], series: Sequence[TextSeries]) -> Sequence[int]:
    """Return the series with the metric's own name, else those with or without `node_`."""
    return [number for number in numbers if _metric_of(series[number]) == metric] or numbers


def one_series(node: int, times: Floats, values: Floats, *, absent: bool = False) -> Series:
    """Return a series whose samples all have a value, or all say that the node never had the metric."""
    if absent:
        values = np.full(len(times), np.nan)
    return Series(node, times, values, np.full(len(times), NEVER_HAD if absent else 1, np.int32))


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
