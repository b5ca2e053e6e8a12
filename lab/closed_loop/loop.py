"""Runs the closed loop: pods arrive and are placed, their demand is the nodes' use, and systems read the use."""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.core.model.arrays import Floats
from lab.closed_loop.kube_scheduler import KubeScheduler
from lab.closed_loop.systems import System
from lab.closed_loop.use import INTERVAL, Measurement, Outcome, UseHistory
from lab.closed_loop.workload import TRACE_STEP, Nodes, SimulatedPod

_RETRY = 10.0
"""Seconds until kube-scheduler tries a pod again that no node was left for; it backs off from 1 to 10 s."""
_LONG = 60.0
"""Seconds from which a pending pod is counted as having waited."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: the whole simulation, what of it does not count, and one step of the nodes' use.

    `rate`: pods that kube-scheduler places a second. `watch_delay`: until the watch of pods reports a bind. `restart`: until
    a descheduled pod's replacement arrives.
    """

    end: float
    warm_up: float = 0.0
    step: float = 5.0
    rate: float = 100.0
    watch_delay: float = 0.05
    restart: float = 2.0
    interval: float = INTERVAL
    """Length of a node-interval in results."""
    trace_step: float = TRACE_STEP
    """Seconds between two values of a pod's demand."""


@dataclass(slots=True)
class _Counts:
    waited: int = 0
    moves: int = 0
    placed: int = 0
    at_once: int = 0
    waiting: int = 0
    """Pods that waited for a node after a step, of all steps together."""
    running: int = 0


class ClosedLoop:
    """One simulation. Nodes and pods are equal for every system; `rng` breaks ties of kube-scheduler."""

    def __init__(
        self,
        nodes: Nodes,
        pods: Sequence[SimulatedPod],
        system: System,
        timing: Timing,
        rng: np.random.Generator,
        *,
        base: Floats | None = None,
    ) -> None:
        """`base`: cores that each node uses beside the pods, shape (nodes,), or (steps, nodes) if they change."""
        self._nodes = nodes
        self._pods = pods
        self._system = system
        self._timing = timing
        self._scheduler = KubeScheduler(nodes, rng)
        self._base = np.atleast_2d(np.zeros(nodes.count) if base is None else base)
        self._history = UseHistory(self._base[0], round(timing.end / timing.step), timing.step)
        self._measured = Measurement(nodes, timing.step, timing.warm_up, timing.interval)
        self._node = np.full(len(pods), -1)
        self._started = np.full(len(pods), np.nan)
        self._ends = np.full(len(pods), np.inf)
        width = max((len(pod.demand) for pod in pods), default=1)
        self._demand = np.array([np.resize(pod.demand, width) for pod in pods])
        self._memory = np.array([pod.memory for pod in pods])
        self._numbers = {pod.name: number for number, pod in enumerate(pods)}
        self._queue = [(pod.arrives, number) for number, pod in enumerate(pods)]
        heapq.heapify(self._queue)
        self._arrivals = np.sort([pod.arrives for pod in pods])
        self._since_read = np.zeros(nodes.count, np.int64)
        self._unseen: deque[tuple[float, int, int]] = deque()
        self._counts = _Counts()

    @property
    def placements(self) -> Sequence[int]:
        """Number of pods on each node now."""
        counts: list[int] = np.bincount(
            self._node[self._node >= 0], minlength=self._nodes.count
        ).tolist()
        return counts

    def run(self) -> Outcome:
        """Run to the end and return the result."""
        step = self._timing.step
        due = 0.0
        for number in range(round(self._timing.end / step)):
            now = number * step
            self._end_pods(now)
            if now >= due:
                self._system.read(now, self._history)
                due = now + self._system.period
                self._since_read[:] = 0
            self._deschedule(now)
            self._place(now, now + step)
            self._history.add(self._measured.add(self._demands(number)))
            self._count_waiting(now + step)
        waiting = sum(self._pods[n].arrives < self._timing.end for _, n in self._queue)
        counts = self._counts
        return self._measured.outcome(
            pods=counts.placed,
            pending=waiting,
            pending_share=counts.waiting / max(1, counts.waiting + counts.running),
            waited=counts.waited,
            moves=counts.moves,
            writes=counts.moves + self._system.writes,
            at_once=counts.at_once,
        )

    def _count_waiting(self, now: float) -> None:
        arrived = int(np.searchsorted(self._arrivals, now))
        self._counts.waiting += arrived - self._counts.placed
        self._counts.running += int((self._node >= 0).sum())

    def _end_pods(self, now: float) -> None:
        self._see_binds(now)
        for number in ((self._ends <= now) & (self._node >= 0)).nonzero()[0].tolist():
            self._remove(number, now)

    def _deschedule(self, now: float) -> None:
        for name in self._system.descheduled(now):
            number = self._numbers[name]
            self._remove(number, now)
            self._counts.moves += 1
            heapq.heappush(self._queue, (now + self._timing.restart, number))

    def _remove(self, number: int, now: float) -> None:
        pod, node = self._pods[number], int(self._node[number])
        self._node[number] = -1
        self._scheduler.forget(pod, node)
        self._system.gone(pod, node, now)

    def _place(self, begin: float, end: float) -> None:
        """Place the pods that arrived before `end`, one after the other."""
        now = begin
        while self._queue and self._queue[0][0] < end and now < end:
            arrived, number = heapq.heappop(self._queue)
            now = max(now, arrived)
            self._see_binds(now)
            self._try(number, now)
            now += 1 / self._timing.rate
        self._see_binds(end)

    def _try(self, number: int, now: float) -> None:
        if self._ends[number] <= now:
            return  # a descheduled pod whose life ended while it was pending
        pod = self._pods[number]
        feasible = self._scheduler.feasible(pod)
        if len(feasible):
            feasible = self._system.permitted(pod, feasible, now)
        if not len(feasible):
            heapq.heappush(self._queue, (now + _RETRY, number))
            return
        scores = self._scheduler.scores(pod, feasible, by_requests=self._system.by_requests)
        if len(feasible) > 1:  # kube-scheduler scores no single node
            scores = scores + self._system.scores(pod, feasible, now)
        self._bind(number, self._scheduler.choose(feasible, scores), now)

    def _bind(self, number: int, node: int, now: float) -> None:
        pod = self._pods[number]
        self._scheduler.assume(pod, node)
        self._node[number] = node
        if np.isnan(self._started[number]):
            self._started[number] = now
            self._ends[number] = now + pod.life
            self._counts.waited += now - pod.arrives > _LONG
            self._counts.placed += 1
        self._unseen.append((now + self._timing.watch_delay, number, node))
        self._since_read[node] += 1
        self._counts.at_once = max(self._counts.at_once, int(self._since_read[node]))

    def _see_binds(self, now: float) -> None:
        while self._unseen and self._unseen[0][0] <= now:
            at, number, node = self._unseen.popleft()
            self._system.bound(self._pods[number], node, at)

    def _demands(self, step: int) -> Floats:
        """Return the demand of each node in cores during a step."""
        now = step * self._timing.step
        running = (self._node >= 0).nonzero()[0]
        nodes = self._node[running]
        elapsed = np.maximum(now - self._started[running], 0) // self._timing.trace_step
        values = self._demand[running, elapsed.astype(np.intp) % self._demand.shape[1]]
        count = self._nodes.count
        self._history.memory[:] = np.bincount(nodes, self._memory[running], count)
        base = self._base[min(step, len(self._base) - 1)]
        demands: Floats = base + np.bincount(nodes, values, count)
        return demands
