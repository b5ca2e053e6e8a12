"""Models of other systems, from their published formulas and default settings, with their own lag of readings.

Each is a model, not the program: the output names it so. Sources: the systems' documentation, and the behaviour of
scheduler-plugins, koordinator and descheduler as of 2026.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.node_index import Positions
from lab.closed_loop.kube_scheduler import MAX_SCORE, Scores
from lab.closed_loop.systems import DefaultPlugins
from lab.closed_loop.use import UseHistory
from lab.closed_loop.workload import TRACE_STEP, Nodes, SimulatedPod

_METRICS_SERVER = (30.0, 15.0)
"""metrics-server: the window of a reading and its age, in seconds, at a resolution of 15 s."""


class TelemetryAwareScheduling(DefaultPlugins):
    """Telemetry Aware Scheduling with scheduleonmetric and dontschedule on CPU use.

    It scores 10 for the node with the least use, 9 for the next, and so on, below 0 from the twelfth node on. It reads the
    custom metrics API every 5 s (`syncPeriod`); Prometheus behind it scrapes every 15 s, with a rate over a minute.
    """

    period = 15.0

    def __init__(self, nodes: Nodes, refused_from: float, weight: int) -> None:
        self._cores = nodes.cores
        self._refused_from = refused_from
        self._weight = weight
        self._use: Floats = np.zeros(nodes.count)

    def read(self, now: float, history: UseHistory) -> None:
        """Take the readings of the last scrape, which it sees up to 5 s later."""
        self._use = history.mean(60, age=5) / self._cores

    def permitted(self, pod: SimulatedPod, feasible: Positions, now: float) -> Positions:
        """Return the nodes at or below the target of dontschedule."""
        passing: Positions = feasible[self._use[feasible] <= self._refused_from]
        return passing

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores:
        """Return 10 less the rank, times 10 and the weight."""
        ranks = np.argsort(np.argsort(self._use[feasible], kind="stable"))
        found: Scores = (10 - ranks) * 10 * self._weight
        return found


class _Placed:
    """What was placed on each node and when, with an estimate in cores."""

    def __init__(self, nodes: int) -> None:
        self._recent: dict[str, tuple[float, int, float]] = {}
        self._nodes = nodes
        self._known: tuple[float, Floats] | None = None

    def add(self, pod: SimulatedPod, node: int, now: float, cores: float) -> None:
        self._recent[pod.name] = (now, node, cores)
        self._known = None

    def remove(self, pod: SimulatedPod) -> None:
        if self._recent.pop(pod.name, None) is not None:
            self._known = None

    def since(self, at: float) -> Floats:
        """Return the estimates of pods placed after `at`, in cores per node; earlier ones are forgotten."""
        if self._known is None or self._known[0] != at:
            self._recent = {name: one for name, one in self._recent.items() if one[0] > at}
            found = np.zeros(self._nodes)
            for _, node, cores in self._recent.values():
                found[node] += cores
            self._known = (at, found)
        return self._known[1]


class TargetLoadPacking(DefaultPlugins):
    """Trimaran's TargetLoadPacking with its defaults: packs up to 40 % of CPU, then prefers less use.

    It polls metrics-server every 30 s. Pods count with their CPU limit if they were bound after the window of the readings
    ended, or within a minute before. As in its documentation, the scores by requests are off.
    """

    period = 30.0
    by_requests = False
    _TARGET = 40.0
    _AGENT_INTERVAL = 60.0

    def __init__(self, nodes: Nodes) -> None:
        self._cores = nodes.cores
        self._use: Floats = np.zeros(nodes.count)
        self._placed = _Placed(nodes.count)
        self._end = 0.0

    def read(self, now: float, history: UseHistory) -> None:
        """Take the readings of metrics-server."""
        window, age = _METRICS_SERVER
        self._use, self._end = history.mean(window, age), now - age

    def bound(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Count the pod with its limit."""
        self._placed.add(pod, node, now, pod.limit)

    def gone(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Count the pod no longer."""
        self._placed.remove(pod)

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores:
        """Return 40..100 up to the target by predicted use, and 40..0 from there to 100 %."""
        missing = self._placed.since(self._end - self._AGENT_INTERVAL)
        predicted = 100 * (self._use + missing + pod.limit)[feasible] / self._cores
        below = (100 - self._TARGET) * predicted / self._TARGET + self._TARGET
        above = self._TARGET * (100 - predicted) / (100 - self._TARGET)
        found = np.where(predicted > self._TARGET, np.maximum(above, 0), below)
        scores: Scores = np.rint(found).astype(np.int64)
        return scores


class LoadVariationRiskBalancing(DefaultPlugins):
    """Trimaran's LoadVariationRiskBalancing with its defaults, for CPU: mean and deviation of 15 minutes, margin 1.

    Risk is half of mean use with the pod's request plus the deviation, as shares of the node. It polls every 30 s and does
    not count pods that were placed since. Beside the default plugins, as in its documentation.
    """

    period = 30.0
    _WINDOW = 900.0

    def __init__(self, nodes: Nodes) -> None:
        self._cores = nodes.cores
        self._mean: Floats = np.zeros(nodes.count)
        self._deviation: Floats = np.zeros(nodes.count)

    def read(self, now: float, history: UseHistory) -> None:
        """Take mean and deviation."""
        self._mean = history.mean(self._WINDOW, 15)
        self._deviation = history.deviation(self._WINDOW, 15)

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores:
        """Return 100 less the risk in percent."""
        mean = np.clip((self._mean[feasible] + pod.cpu) / self._cores, 0, 1)
        risk = (mean + np.clip(self._deviation[feasible] / self._cores, 0, 1)) / 2
        scores: Scores = np.rint((1 - risk) * MAX_SCORE).astype(np.int64)
        return scores


class Koordinator(DefaultPlugins):
    """koordinator's LoadAwareScheduling with its defaults: rejects nodes above 65 % of CPU, and prefers less use.

    Nodes report every 60 s the mean of 5 minutes. Pods bound since a minute before the report count with 85 % of their CPU
    limit, or of the request if that is larger; their part in the reported use is not subtracted here, which is a fifth of it
    at most. CPU and memory have equal weights; memory is that of requests, which the model takes for use.
    """

    period = 60.0
    _THRESHOLD = 65
    _SCALE = 0.85

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._use: Floats = np.zeros(nodes.count)
        self._memory: Floats = np.zeros(nodes.count)
        self._at = 0.0
        self._placed = _Placed(nodes.count)

    def read(self, now: float, history: UseHistory) -> None:
        """Take the reports of all nodes."""
        self._use, self._memory, self._at = history.mean(300), history.memory.copy(), now

    def bound(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Count the pod's estimate."""
        self._placed.add(pod, node, now, self._estimate(pod))

    def gone(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Count the pod no longer."""
        self._placed.remove(pod)

    def permitted(self, pod: SimulatedPod, feasible: Positions, now: float) -> Positions:
        """Return the nodes at or below 65 % of CPU with the pod."""
        share = np.rint(100 * self._estimated(pod)[feasible] / self._nodes.cores)
        passing: Positions = feasible[share <= self._THRESHOLD]
        return passing

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores:
        """Return the mean of the free shares of CPU and memory, 0..100."""
        cpu = 1 - self._estimated(pod)[feasible] / self._nodes.cores
        memory = 1 - (self._memory[feasible] + pod.memory) / self._nodes.memory
        free = [np.floor(np.maximum(share, 0) * MAX_SCORE) for share in (cpu, memory)]
        scores: Scores = (sum(free) // 2).astype(np.int64)
        return scores

    def _estimated(self, pod: SimulatedPod) -> Floats:
        return self._use + self._placed.since(self._at - self.period) + self._estimate(pod)

    def _estimate(self, pod: SimulatedPod) -> float:
        return self._SCALE * max(pod.limit, pod.cpu)


class Descheduler(DefaultPlugins):
    """The default plugins, and descheduler's LowNodeUtilization by use, as its chart's CronJob runs it every 2 minutes.

    Thresholds are 10 % below and above the mean (`useDeviationThresholds`), by metrics-server (`metricsUtilization`). Nodes
    above lose pods, the most used node first, until they are at the upper threshold or what the nodes below can take is used
    up; pods of equal priority go in the order in which they were bound. By default any number of pods: `per_node` is the most
    of one node and run, as by `maxNoOfPodsToEvictPerNode`.
    """

    period = 120.0
    _DEVIATION = 0.1

    def __init__(self, nodes: Nodes, per_node: int = 1_000_000) -> None:
        self._nodes = nodes
        self._per_node = per_node
        self._pods: dict[str, tuple[SimulatedPod, int, float]] = {}
        self._started: dict[str, float] = {}
        self._use: Floats = np.zeros(nodes.count)
        self._due = False

    def read(self, now: float, history: UseHistory) -> None:
        """Take the readings of metrics-server; a run follows."""
        self._use, self._due = history.mean(*_METRICS_SERVER), True

    def bound(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Remember the pod's node."""
        self._pods[pod.name] = (pod, node, self._started.setdefault(pod.name, now))

    def gone(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Forget the pod's node."""
        self._pods.pop(pod.name, None)

    def descheduled(self, now: float) -> Sequence[str]:
        """Return the pods that a run evicts, once per reading."""
        if not self._due:
            return ()
        self._due = False
        return [*self._run(now)]

    def _run(self, now: float) -> Iterator[str]:
        share = self._use / self._nodes.cores
        low, high = share.mean() - self._DEVIATION, share.mean() + self._DEVIATION
        available = float((high - share[share < low]).sum()) * self._nodes.cores
        by_node: dict[int, list[tuple[SimulatedPod, float]]] = {}
        for pod, node, started in self._pods.values():
            by_node.setdefault(node, []).append((pod, started))
        for node in np.argsort(-share).tolist():
            use = float(self._use[node])
            for pod, started in by_node.get(node, ())[: self._per_node]:
                if use <= high * self._nodes.cores or available <= 0:
                    break
                yield pod.name
                step = int(max(0.0, now - started) // TRACE_STEP) % len(pod.demand)
                use -= float(pod.demand[step])
                available -= float(pod.demand[step])


class Oracle(DefaultPlugins):
    """A bound, not a system: it knows the mean demand of every pod, also of the one to place, and prefers the least loaded node.

    It does not know how demand will vary around its mean, and moves nothing: what is left is what no ranking can foresee.
    """

    by_requests = False
    _SCALE = 1000

    def __init__(self, nodes: Nodes) -> None:
        self._mean: Floats = np.zeros(nodes.count)

    def bound(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Add the pod's mean demand."""
        self._mean[node] += pod.demand.mean()

    def gone(self, pod: SimulatedPod, node: int, now: float) -> None:
        """Subtract the pod's mean demand."""
        self._mean[node] -= pod.demand.mean()

    def scores(self, pod: SimulatedPod, feasible: Positions, now: float) -> Scores:
        """Return the negative mean demand in thousandths of a core."""
        scores: Scores = -np.rint(self._SCALE * self._mean[feasible]).astype(np.int64)
        return scores
