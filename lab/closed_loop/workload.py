"""The pods of a simulation: when each arrives, what it requests, and the CPU that it would use over time.

A pod's demand is one machine's trace from an offset on, times the pod's limit. Traces are PlanetLab's, or generated with
the same statistics: https://doi.org/10.1002/cpe.1867 describes the traces.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from evaluator.core.model.arrays import Floats

TRACE_STEP = 300.0
"""Seconds between two values of a trace."""
TRACE_VALUES = 288
"""Values of a trace: one day."""
_MOST_TRACES = 100_000
LIMITS = (2.0, 4.0, 8.0)
"""CPU limits of pods in cores; each is equally likely."""
_REPLICAS = (100, 300)
"""Pods of one Deployment that arrive at once, least and most."""
_MEMORY_PER_CORE = 4 * 2.0**30
"""Bytes of memory of a node per core; pods request half of it per requested core, or half or twice as much."""


class TraceError(ValueError):
    """Traces cannot be read; the message names the line and what is expected."""


@dataclass(frozen=True, slots=True)
class SimulatedPod:
    """A pod. Times are in seconds since the start, CPU in cores, memory in bytes.

    `demand`: its CPU from its start on, `TRACE_STEP` seconds each, repeated at the end. `owner`: its ReplicaSet, whose
    pods kube-scheduler spreads by default; empty for none.
    """

    name: str
    arrives: float
    life: float
    cpu: float
    memory: float
    limit: float
    demand: Floats
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Equal nodes: cores and bytes of memory of each, and their names if they have some."""

    count: int
    cores: float
    named: tuple[str, ...] = ()

    @property
    def memory(self) -> float:
        """Bytes of memory of one node."""
        return self.cores * _MEMORY_PER_CORE

    @property
    def names(self) -> list[str]:
        """Return the names, in order."""
        return [*self.named] or [f"node-{number:03}" for number in range(self.count)]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How pods arrive. Times are in seconds.

    `load`: the mean demand of all pods as a share of the nodes' cores. `requested`: the request of a pod as a multiple of
    what pods of its limit use on average. Lives are uniform between 2/3 and 4/3 of `life`. `burst`: a third of the
    pods every third of a life, at one moment; half of these as Deployments of 100 to 300 replicas, half as pods without a
    ReplicaSet, such as a Job's. Otherwise single pods without one, as a Poisson process of the same rate.
    """

    load: float
    burst: bool
    requested: float = 1.0
    life: float = 5400.0
    end: float = 14400.0
    """The last arrival."""
    ramp: float = 1800.0
    """In steady arrivals, the time in which the pods that run at first arrive, one by one."""


def parse_traces(lines: Iterable[str]) -> Floats:
    """Return traces as shares 0..1, shape (machines, 288), of lines with 288 percentages. Raises TraceError."""
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = np.array(line.split(","), dtype=np.float64)
        except ValueError as error:
            raise TraceError(f"line {number}: not numbers with commas between them") from error
        if len(row) != TRACE_VALUES or not ((row >= 0) & (row <= 100)).all():
            raise TraceError(
                f"line {number}: expected {TRACE_VALUES} percentages from 0 to 100, one day at 5 minutes"
            )
        rows.append(row)
        if len(rows) > _MOST_TRACES:
            raise TraceError(f"more than {_MOST_TRACES} traces")
    if not rows:
        raise TraceError("no traces: expected one machine a line, with 288 percentages")
    return np.array(rows) / 100


def generated_traces(machines: int, rng: np.random.Generator) -> Floats:
    """Return traces as shares 0..1, shape (machines, 288): a mean that differs between machines, and noise.

    As in PlanetLab's: means are log-normal with a median of 6.5 %, the noise of 5 minutes is nearly independent of the one
    before, larger on busy machines, and skewed.
    """
    means = np.minimum(0.068 * np.exp(rng.normal(0.0, 1.2, machines)), 0.75)
    noise = rng.gamma(1.2, 1 / 1.2, (machines, TRACE_VALUES))
    share = np.minimum(1.0, 0.05 / means + 0.2)[:, None]
    traces: Floats = np.clip(means[:, None] * (1 - share + share * noise), 0.0, 1.0)
    return traces


def pods_at_once(arrivals: Arrivals, nodes: Nodes, traces: Floats) -> float:
    """Return how many pods of these traces make up the load; infinite if they use nothing."""
    mean = float(traces.mean()) * float(np.mean(LIMITS))
    return arrivals.load * nodes.count * nodes.cores / mean if mean else math.inf


def workload(
    arrivals: Arrivals, nodes: Nodes, traces: Floats, rng: np.random.Generator
) -> list[SimulatedPod]:
    """Return the pods in order of arrival. The same generator state gives the same pods, for every system."""
    at_once = pods_at_once(arrivals, nodes, traces)
    kinds = (_bursts if arrivals.burst else _singles)(arrivals, at_once, rng)
    pods = []
    for number, (at, life, limit, owner) in enumerate(sorted(kinds)):
        cpu = round(arrivals.requested * limit * float(traces.mean()), 3)
        memory = float(rng.choice((0.25, 0.5, 1.0))) * cpu * _MEMORY_PER_CORE
        demand = _demand(traces, limit, rng)
        pods.append(SimulatedPod(f"pod-{number:05}", at, life, cpu, memory, limit, demand, owner))
    return pods


_Kind = tuple[float, float, float, str]
"""Arrival, life, limit and owner of a pod."""


def _singles(arrivals: Arrivals, at_once: float, rng: np.random.Generator) -> Iterator[_Kind]:
    for _ in range(round(at_once)):  # these have lived for a while when they are first seen
        life = rng.random() * _life(arrivals, rng)
        yield rng.random() * arrivals.ramp, life, float(rng.choice(LIMITS)), ""
    at = 0.0
    while (at := at + rng.exponential(arrivals.life / at_once)) <= arrivals.end:
        yield at, _life(arrivals, rng), float(rng.choice(LIMITS)), ""


def _bursts(arrivals: Arrivals, at_once: float, rng: np.random.Generator) -> Iterator[_Kind]:
    gap = arrivals.life / 3
    for number in range(int(arrivals.end // gap) + 1):
        at = gap * (number + 0.3 * rng.random())
        left = at_once / 3 * float(np.mean(LIMITS))  # limits of all pods of the burst, in cores
        while left > 0:
            limit = float(rng.choice(LIMITS))
            size = min(math.ceil(left / limit), int(rng.integers(*_REPLICAS, endpoint=True)))
            owner = f"replicaset-{number}-{left:.0f}" if rng.random() < 0.5 else ""
            for _ in range(size):
                yield at, _life(arrivals, rng), limit, owner
            left -= size * limit


def _life(arrivals: Arrivals, rng: np.random.Generator) -> float:
    return float(arrivals.life * rng.uniform(2 / 3, 4 / 3))


def _demand(traces: Floats, limit: float, rng: np.random.Generator) -> Floats:
    """Return a random trace from a random offset on, in cores."""
    offset = int(rng.integers(TRACE_VALUES))
    trace = traces[int(rng.integers(len(traces)))]
    demand: Floats = limit * np.roll(trace, -offset)
    return demand


def equal_pods(count: int, kind: SimulatedPod) -> list[SimulatedPod]:
    """Return pods that differ from `kind` in their names only, so that they arrive at once."""
    return [replace(kind, name=f"{kind.name}-{number:04}") for number in range(count)]
