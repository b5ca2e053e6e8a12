"""Reads recordings from Prometheus, or what speaks its API, by range queries."""

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.sources import prometheus_vector
from evaluator.core.sources.answer import SourceError
from evaluator.core.sources.prometheus import Access, Prometheus, Queries
from evaluator.core.sources.prometheus_vector import MatrixSeries
from lab.backtest.inputs.source import (
    ALLOCATABLE,
    NODE_INFO,
    BacktestError,
    Labels,
    Request,
    join_of,
    one_series,
)
from lab.interface import Period
from lab.replay.run import Resources
from lab.replay.samples import Merge, Recording, Samples, Series
from plimsoll.metric_names import spellings

MOST_POINTS = 10_000
"""Points of one query; Prometheus refuses more than 11,000 per series."""
_MOST_VALUES = 500_000
"""Points of one answer over all series."""
_AT_ONCE = 4
_PART_VALUES = 4_000_000
"""Points of one part over all metrics."""
_SHORTEST = 60
_COARSE = 200
"""Points of the query that finds the nodes of a configured query."""
_INFO_RANGE = "1d"

_MOST_WARNINGS = 10
_RAW = {"max_source_resolution": "0s"}
"""Of Thanos: not downsampled. Other servers ignore parameters that they do not know."""
_WHOLE = {"partial_response": "false", "deny_partial_response": "1"}
"""Of Thanos and VictoriaMetrics: an error rather than an answer that lacks the data of a server that is down."""

_MAY_BE_PARTIAL = re.compile(r"http_(422|5\d\d)")
_PARTIAL = " (if a server of Thanos or VictoriaMetrics is down: pass --partial-response to replay without its data)"

T = TypeVar("T")


class PrometheusHistory:
    """A source of recordings; call `open` before anything else, and `close` at the end."""

    sources = 1

    def __init__(
        self,
        access: Access,
        queries: Queries,
        request: Request,
        *,
        timeout: float,
        partial: bool = False,
    ) -> None:
        """`partial`: accept answers that lack the data of servers that are down; they come with a warning."""
        self._request = request
        self._queries = queries
        self._runner = asyncio.Runner()
        self._api = Prometheus(access, queries, lambda: lambda _labels: None, timeout=timeout)
        self._url = access.url
        self._join: Callable[[Labels], str | None] = lambda _labels: None
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._merges = {metric: Merge(request.stale_after) for metric in request.metrics}
        self._whole: Mapping[str, str] = {**_RAW, **({} if partial else _WHOLE)}
        self._warnings: dict[str, None] = {}
        self.period = Period(0, 0)
        self.start = 0.0
        self.nodes = NodeIndex()
        self.allocatable: Resources = {}

    @property
    def warnings(self) -> Sequence[str]:
        """The warnings of all answers so far, each once."""
        return [*self._warnings][:_MOST_WARNINGS]

    def open(self) -> None:
        """Find the nodes. Raises BacktestError."""
        step = self._request.step
        period = self._request.period(None, time.time())
        # Points of range queries are at multiples of the step, and so are the moments of the replay.
        begin, end = (math.floor(at / step) * step for at in (period.begin, period.end))
        self.period = Period(begin, max(end, begin + step))
        self.start = begin - math.ceil(self._request.warm_up / step) * step
        self._run(self._find_nodes())
        if not self.nodes:
            names = ", ".join(sorted(self._request.metrics))
            raise BacktestError(
                f"{self._url} has no series of {names} on a node in this range: check the names, and the label of "
                "--prometheusNodeLabel"
            )

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._api.close())
        self._runner.close()

    def parts(self) -> Iterator[tuple[Recording, float]]:
        """Yield consecutive parts. Raises BacktestError."""
        step = self._request.step
        size = max(1, len(self.nodes) * len(self._request.metrics))
        points = max(_SHORTEST, _PART_VALUES // size)
        begin = self.start - step
        while begin < self.period.end:
            end = min(begin + points * step, self.period.end)
            yield self._run(self._part(begin + step, end)), end
            begin = end

    def _run(self, work: Awaitable[T]) -> T:
        async def wrapped() -> T:
            return await work

        try:
            return self._runner.run(wrapped())
        except SourceError as error:
            raise self._failed(error) from error
        except ExceptionGroup as errors:
            raise self._failed(_first(errors)) from errors

    def _failed(self, error: BaseException) -> BacktestError:
        reason = error.reason if isinstance(error, SourceError) else ""
        hint = _PARTIAL if self._whole != _RAW and _MAY_BE_PARTIAL.fullmatch(reason) else ""
        return BacktestError(f"{self._url}: {error}{hint}")

    async def _find_nodes(self) -> None:
        infos = await self._last(NODE_INFO)
        known = [labels for labels, _ in infos if labels.get("node")]
        self._join = join_of(known, self._request.node_label)
        nodes = {labels["node"] for labels in known}
        for metric in self._request.metrics:
            for labels in await self._labels_of(metric):
                if node := self._join(labels):
                    nodes.add(node)
        self.nodes = NodeIndex(sorted(nodes))
        resources: dict[str, dict[str, float]] = {}
        for labels, value in await self._last(ALLOCATABLE):
            resources.setdefault(labels.get("node", ""), {})[labels.get("resource", "")] = value
        self.allocatable = resources

    async def _last(self, name: str) -> list[tuple[Labels, float]]:
        """Return the last values of the series of a name within a day before the end."""
        matrix = await self._range(
            _last_of(name, _INFO_RANGE), self.period.end, self.period.end, 1.0
        )
        return [(series.metric, float(series.values[-1][1])) for series in matrix if series.values]

    async def _labels_of(self, metric: str) -> Sequence[Labels]:
        """Return the labels of the series of a metric in the range."""
        if query := self._queries.query_of(metric):
            length = self.period.end - self.start
            step = max(self._request.step, math.ceil(length / _COARSE))
            matrix = await self._range(query, self.start, self.period.end, step)
            return [series.metric for series in matrix]
        matches = {"match[]": f'{{__name__=~"(node_)?{metric}"}}'}
        times = {"start": f"{self.start:.3f}", "end": f"{self.period.end:.3f}"}
        body, _ = await self._api.request("series", {**matches, **times, **self._whole})
        answer = prometheus_vector.label_sets(body)
        self._warn(answer.warnings)
        return answer.labels

    async def _part(self, begin: float, end: float) -> Recording:
        """Return the samples of all metrics in [begin, end]."""
        metrics = sorted(self._request.metrics)
        async with asyncio.TaskGroup() as group:
            tasks = {m: group.create_task(self._samples(m, begin, end)) for m in metrics}
        return Recording(self.nodes, {metric: task.result() for metric, task in tasks.items()})

    async def _samples(self, metric: str, begin: float, end: float) -> Samples:
        """Return the samples of a metric, read in windows that an answer can hold."""
        step = self._request.step
        points = min(MOST_POINTS, max(_SHORTEST, _MOST_VALUES // len(self.nodes)))
        starts = np.arange(begin, end + step / 2, points * step).tolist()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._window(metric, at, min(at + (points - 1) * step, end)))
                for at in starts
            ]
        by_series: dict[_Key, list[_Window]] = {}
        for task in tasks:
            for window in task.result():
                by_series.setdefault(tuple(sorted(window.labels.items())), []).append(window)
        return self._merges[metric].part(dict(self._series(by_series)))

    def _series(
        self, groups: Mapping["_Key", Sequence["_Window"]]
    ) -> Iterator[tuple["_Key", Series]]:
        for key, group in groups.items():
            node = self.nodes.position.get(self._join(group[0].labels) or "", -1)
            if node >= 0:
                times = np.concatenate([window.times for window in group])
                yield (
                    key,
                    one_series(node, times, np.concatenate([window.values for window in group])),
                )

    async def _window(self, metric: str, begin: float, end: float) -> list["_Window"]:
        """Return the samples of a metric in [begin, end]; a series with its own name precedes that with or without `node_`."""
        step = self._request.step
        if query := self._queries.query_of(metric):
            return [*map(_window, await self._range(query, begin, end, step, lookback=step))]
        width = f"{round(step * 1000) - 1}ms"  # a range includes its begin, before Prometheus 3
        own = [*map(_window, await self._range(_last_of(metric, width), begin, end, step))]
        others = spellings(metric)[1:]
        if not others:
            return own
        other = await self._range(_last_of(others[0], width), begin, end, step)
        named = {self._join(series.labels) for series in own}
        return own + [_window(series) for series in other if self._join(series.metric) not in named]

    async def _range(
        self, query: str, begin: float, end: float, step: float, lookback: float | None = None
    ) -> list[MatrixSeries]:
        parameters: Mapping[str, str] = {
            "query": query,
            "start": f"{begin:.3f}",
            "end": f"{end:.3f}",
            "step": f"{step:.3f}",
            **({"lookback_delta": f"{lookback:.3f}"} if lookback else {}),
            **self._whole,
        }
        async with self._slots:
            body, _ = await self._api.request("query_range", parameters)
        matrix = prometheus_vector.matrix(body)
        self._warn(matrix.warnings)
        return matrix.series

    def _warn(self, warnings: Iterable[str]) -> None:
        self._warnings.update(dict.fromkeys(warnings))


_Key = tuple[tuple[str, str], ...]
"""The labels of a series."""


class _Window(NamedTuple):
    """The samples of one series in one answer; as arrays, they take a tenth of the memory."""

    labels: Labels
    times: Floats
    values: Floats


def _window(series: MatrixSeries) -> _Window:
    times = np.array([at for at, _ in series.values])
    return _Window(series.metric, times, np.array([float(value) for _, value in series.values]))


def _last_of(name: str, window: str) -> str:
    """Return the query for the last samples of a name in a window: of its own time, not repeated by a look-back."""
    return f'last_over_time({{__name__="{name}"}}[{window}])'


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
