"""The scenarios of the placement benchmark: nodes, pods and times, the same for every system.

- `planetlab-50`, `planetlab-70`, steady and burst: pods with PlanetLab's traces, or generated ones, whose mean demand is that
  share of the nodes' cores; they request what such pods use on average.
- `small`: the same on 12 nodes for two hours, in bursts: small enough for the real engine.
- `full`: requests of three times the mean use, so that requests fill the cluster before use does.
- `burst`: 100 pods at once on 20 nodes of 8 cores, each using four times its request. `right`: the same with requests that
  are right. `second`: as `burst`, after the same pods ran there once and ended.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evaluator.core.model.arrays import Floats
from lab.closed_loop.loop import Timing
from lab.closed_loop.use import INTERVAL
from lab.closed_loop.workload import (
    Arrivals,
    Nodes,
    SimulatedPod,
    equal_pods,
    workload,
)

_HOUR = 3600.0
_MIB = 2.0**20
_DEMAND = 0.8
"""Cores that a pod of a burst uses."""


@dataclass(frozen=True)
class World:
    """One scenario with one seed: everything but the system. `base`: cores that each node uses beside the pods."""

    nodes: Nodes
    pods: Sequence[SimulatedPod]
    timing: Timing
    base: Floats


def compressed(world: World, factor: float) -> World:
    """Return a world whose pods arrive, change and end `factor` times as fast; systems keep their own times."""
    if factor == 1:
        return world
    timing = world.timing
    pods = [replace(p, arrives=p.arrives / factor, life=p.life / factor) for p in world.pods]
    timing = replace(
        timing,
        end=timing.end / factor,
        warm_up=timing.warm_up / factor,
        step=1.0,
        interval=timing.interval / factor,
        trace_step=timing.trace_step / factor,
    )
    return replace(world, pods=pods, timing=timing)


class Scenario(Protocol):
    """Makes a world from traces and a seed. `traced`: whether the traces matter."""

    @property
    def traced(self) -> bool:
        """Whether the traces matter."""
        ...

    def world(self, traces: Floats, rng: np.random.Generator) -> World:
        """Return the world for a state of the generator."""
        ...


@dataclass(frozen=True, slots=True)
class Traced:
    """Pods with traces, for some hours of which the last three quarters count. Fields as in `Arrivals`; `nodes` have 16 cores."""

    load: float
    burst: bool = False
    requested: float = 1.0
    nodes: int = 60
    hours: float = 4.0
    traced: bool = True

    def world(self, traces: Floats, rng: np.random.Generator) -> World:
        """Return the world for a state of the generator."""
        nodes = Nodes(self.nodes, 16.0)
        timing = Timing(end=self.hours * _HOUR, warm_up=self.hours / 4 * _HOUR)
        arrivals = Arrivals(self.load, self.burst, requested=self.requested, end=timing.end)
        base = np.zeros(self.nodes)
        return World(nodes, workload(arrivals, nodes, traces, rng), timing, base)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Pods that arrive at once on nodes that use 2 to 4 of 8 cores; `request` in cores. The minute counts that begins after.

    `again`: the same pods arrived once before, and were gone when these arrive.
    """

    request: float
    again: bool = False
    pods: int = 100
    nodes: int = 20
    traced: bool = False

    def world(self, _traces: Floats, rng: np.random.Generator) -> World:
        """Return the world for a state of the generator."""
        nodes = Nodes(self.nodes, 8.0)
        pods: list[SimulatedPod] = []
        at = 30.0
        if self.again:
            pods += equal_pods(self.pods, self._pod("first", at, life=240.0))
            at = 450.0
        pods += equal_pods(self.pods, self._pod("burst", at, life=math.inf))
        warm_up = at + 30
        timing = Timing(end=warm_up + INTERVAL, warm_up=warm_up, step=1.0)
        return World(nodes, pods, timing, rng.uniform(2.0, 4.0, self.nodes))

    def _pod(self, name: str, at: float, *, life: float) -> SimulatedPod:
        demand = np.full(1, _DEMAND)
        return SimulatedPod(name, at, life, self.request, 64 * _MIB, _DEMAND, demand)


SCENARIOS: Mapping[str, Scenario] = {
    "planetlab-50-steady": Traced(0.5),
    "planetlab-50-burst": Traced(0.5, burst=True),
    "planetlab-70-steady": Traced(0.7),
    "planetlab-70-burst": Traced(0.7, burst=True),
    "small": Traced(0.6, burst=True, nodes=12, hours=2.0),
    "full": Traced(0.3, requested=3.0),
    "burst": AtOnce(0.2),
    "right": AtOnce(0.8),
    "second": AtOnce(0.2, again=True),
}


_ON_FEWER = re.compile(r"planetlab-70-steady-on-(\d+)", re.ASCII)
SIZED = 60


def scenario(name: str) -> Scenario:
    """Return a scenario by name; `planetlab-70-steady-on-54`: its pods on 54 nodes. Raises KeyError."""
    if found := _ON_FEWER.fullmatch(name):
        nodes = int(found[1])
        return Traced(0.7 * SIZED / nodes, nodes=nodes)
    return SCENARIOS[name]
