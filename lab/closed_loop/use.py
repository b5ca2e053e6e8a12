"""The use of nodes over a simulation: windows of it are readings, intervals of it are results."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluator.core.model.arrays import Floats
from lab.closed_loop.workload import Nodes

INTERVAL = 60.0
"""Seconds of a node-interval in results."""
_HOT = 0.8


class UseHistory:
    """CPU use of each node in cores, one value a step; before the start nodes are idle but for `base`."""

    def __init__(self, base: Floats, steps: int, step: float) -> None:
        self._base = base
        self._step = step
        self._sum = np.zeros((steps + 1, len(base)))
        self._squares = np.zeros((steps + 1, len(base)))
        self.memory: Floats = np.zeros(len(base))
        """Bytes in use now."""
        self._count = 0

    def add(self, use: Floats) -> None:
        """Add the use of the next step."""
        now = self._count
        self._sum[now + 1] = self._sum[now] + use
        self._squares[now + 1] = self._squares[now] + use**2
        self._count += 1

    def mean(self, window: float, age: float = 0.0) -> Floats:
        """Return the mean of the last `window` seconds, as it was `age` seconds ago."""
        return self._over(self._sum, self._base, window, age)

    def deviation(self, window: float, age: float = 0.0) -> Floats:
        """Return the standard deviation in the last `window` seconds, as it was `age` seconds ago."""
        squares = self._over(self._squares, self._base**2, window, age)
        deviation: Floats = np.sqrt(np.maximum(squares - self.mean(window, age) ** 2, 0))
        return deviation

    def _over(self, sums: Floats, before: Floats, window: float, age: float) -> Floats:
        size = max(1, round(window / self._step))
        end = max(0, self._count - round(age / self._step))
        begin = max(0, end - size)
        mean: Floats = (sums[end] - sums[begin] + before * (size - (end - begin))) / size
        return mean


@dataclass(frozen=True)
class Outcome:
    """The result of one simulation. Shares are of node-intervals, or of the demand; use is a share of a node's cores.

    `pending_share`: pods that waited for a node, of all pods that waited or ran, on average over time.
    `use`: the mean use of each interval and node, shape (intervals, nodes), from the start on. `at_once`: most pods that
    one node got within one interval of the system's readings. `deviation`: the standard deviation of demand between nodes. `waited`: pods that were pending for more than a minute.
    `writes`: to the API beside bindings: of pods that leave, and changes of node labels.
    """

    hot: float
    over: float
    unmet: float
    p50: float
    p99: float
    deviation: float
    most: float
    """The highest use that demand would need on one node, as a share: over 1 where demand is not met."""
    pods: int
    pending: int
    pending_share: float
    waited: int
    moves: int
    writes: int
    at_once: int
    use: Floats

    @property
    def figures(self) -> Mapping[str, float]:
        """The figures by name: percentages, and counts of pods."""
        return {
            "hot_percent": 100 * self.hot,
            "over_percent": 100 * self.over,
            "unmet_percent": 100 * self.unmet,
            "p50_percent": 100 * self.p50,
            "p99_percent": 100 * self.p99,
            "deviation_percent": 100 * self.deviation,
            "most_percent": 100 * self.most,
            "pods": self.pods,
            "pending": self.pending,
            "pending_percent": 100 * self.pending_share,
            "waited": self.waited,
            "moves": self.moves,
            "writes": self.writes,
            "at_once": self.at_once,
        }


class Measurement:
    """Adds up demand and use per interval."""

    def __init__(
        self, nodes: Nodes, step: float, warm_up: float = 0.0, interval: float = INTERVAL
    ) -> None:
        """Take seconds: of a step, of the warm-up that does not count, and of a node-interval."""
        self._cores = nodes.cores
        self._per_interval = round(interval / step)
        self._warm_up = round(warm_up / interval)
        self._demand = np.zeros(nodes.count)
        self._used = np.zeros(nodes.count)
        self._steps = 0
        self._intervals: list[tuple[Floats, Floats]] = []

    def add(self, demand: Floats) -> Floats:
        """Add the demand of one step in cores; return the use, which is at most the cores."""
        use = np.minimum(demand, self._cores)
        self._demand += demand
        self._used += use
        self._steps += 1
        if self._steps == self._per_interval:
            self._intervals.append((self._demand / self._steps, self._used / self._steps))
            self._demand, self._used, self._steps = np.zeros_like(use), np.zeros_like(use), 0
        return use

    def outcome(
        self,
        *,
        pods: int,
        pending: int,
        pending_share: float,
        waited: int,
        moves: int,
        writes: int,
        at_once: int,
    ) -> Outcome:
        """Return the result. Raises ValueError if no interval counts."""
        counted = self._intervals[self._warm_up :]
        if not counted:
            raise ValueError("the simulation ends before its warm-up")
        demand, use = (np.array(part) / self._cores for part in zip(*counted, strict=True))
        total = float(demand.sum())
        return Outcome(
            hot=float((use > _HOT).mean()),
            over=float((demand > 1).mean()),
            unmet=float((demand - use).sum() / total) if total else 0.0,
            p50=float(np.percentile(use, 50)),
            p99=float(np.percentile(use, 99)),
            deviation=float(demand.std(axis=1).mean()),
            most=float(demand.max()),
            pods=pods,
            pending=pending,
            pending_share=pending_share,
            waited=waited,
            moves=moves,
            writes=writes,
            at_once=at_once,
            use=np.array([used for _, used in self._intervals]) / self._cores,
        )
