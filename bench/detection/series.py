"""Series of nodes for `bench/detection`: load, and what hardware measures while it carries that load.

Every constant is of a healthy machine, with its source; `choice` marks those without one.
"""

from dataclasses import dataclass

import numpy as np

from evaluator.core.model.arrays import Bools, Floats

STEP = 300.0
"""Seconds between readings: those of PlanetLab's traces."""
DAY = 288
"""Readings a day."""
TYPES = np.array([1.0, 1.25, 1.6, 2.0])
"""Machine types by their level of each metric: what is usual on one is slow on another (choice)."""

LATENCY = 90e-6
"""Seconds of a read of 4 KiB from an NVMe disk: a usual specification of drives for data centres (choice)."""
LATENCY_SPREAD = 0.03
"""Spread (standard deviation) of the level between drives of one model (choice)."""
LATENCY_NOISE = 0.02
"""Spread of a mean over 5 minutes, thousands of reads (choice)."""
DISK_USE = 0.3
"""Use of the disk at full load of the CPU (choice). Waiting follows M/D/1: 1 + use / (2 (1 - use))."""

BIT_ERRORS = 1e-12 * 100e9 * 3600
"""Errors an hour of a link of 100 Gbit/s: at most one bit in 10^12, the IBTA's specification of InfiniBand links, which send
idle symbols when there is no traffic."""
ERROR_SPREAD = 0.05
"""Spread of the rate between links (choice)."""

CLOCK = 3.0e9
"""Hz under the performance governor (choice)."""
CLOCK_SPREAD = 0.02
"""Spread between processors: B. Acun et al. (ICS 2016) measure a range of up to 16 % under Turbo Boost over thousands."""
CLOCK_NOISE = 0.01
"""Spread of a mean over 5 minutes (choice)."""
CLOCK_DROOP = 0.08
"""Share of the clock that is lost as more cores turbo at once, from no load to full load (choice)."""

INLET, INLET_SPREAD = 23.0, 1.0
"""°C of the air at the inlet: within ASHRAE's recommended 18 to 27; the spread is that of places in racks (choice)."""
WATTS_IDLE, WATTS_LOAD = 60.0, 120.0
"""Watts of a package without load, and what load adds (choice: half to two thirds of the power is load)."""
KELVIN_PER_WATT = 0.25
"""Of package and heat sink: heat sinks of servers are specified with 0.1 to 0.3 (choice)."""
KELVIN_SPREAD = 0.05
"""Spread between machines (choice)."""
CALM = 0.2
"""Share of the CPUs below which node_calm_celsius of deploy/rules/peers.yaml has a reading."""


@dataclass(frozen=True)
class Metric:
    """Readings of one metric, shape (readings, nodes), NaN where missing; `worse`: 1 if higher is worse, else -1."""

    name: str
    values: Floats
    worse: int


@dataclass(frozen=True)
class Fleet:
    """Nodes with their load, shape (readings, nodes), and types, shape (nodes,)."""

    load: Floats
    types: Floats

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return int(self.load.shape[1])


def fleet(traces: Floats, nodes: int, days: int, rng: np.random.Generator) -> Fleet:
    """Return nodes that each run what some machine of the traces ran, another one each day."""
    load = np.concatenate([traces[rng.integers(0, len(traces), nodes)].T for _ in range(days)])
    return Fleet(load, rng.integers(0, len(TYPES), nodes))


def metrics(one: Fleet, slower: Floats, rng: np.random.Generator) -> list[Metric]:
    """Return the metrics of a fleet. `slower`, shape (readings, nodes): how many times as bad the hardware is; 1 is healthy."""
    return [
        Metric("nvme_latency", _latency(one, slower, rng), 1),
        Metric("link_errors", _errors(one, slower, rng), 1),
        Metric("cpu_clock", _clock(one, slower, rng), -1),
        Metric("calm_celsius", _calm(one, _celsius(one, slower, rng)), 1),
    ]


def unsuited(one: Fleet, slower: Floats, rng: np.random.Generator) -> list[Metric]:
    """Return metrics that depend on load more than on hardware: the load itself, and temperature at any load."""
    return [
        Metric("load", one.load * slower, 1),
        Metric("celsius", _celsius(one, slower, rng), 1),
    ]


def _level(one: Fleet, spread: float, rng: np.random.Generator) -> Floats:
    """Return the level of each machine: of its type, and its own; shape (nodes,)."""
    own = np.exp(rng.normal(0.0, spread, one.nodes))
    level: Floats = TYPES[one.types.astype(np.intp)] * own
    return level


def _latency(one: Fleet, slower: Floats, rng: np.random.Generator) -> Floats:
    use = DISK_USE * one.load
    waiting = 1 + use / (2 * (1 - use))
    noise = np.exp(rng.normal(0.0, LATENCY_NOISE, one.load.shape))
    found: Floats = LATENCY * _level(one, LATENCY_SPREAD, rng) * waiting * noise * slower
    return found


def _errors(one: Fleet, slower: Floats, rng: np.random.Generator) -> Floats:
    """Return errors of the last hour at each reading."""
    a_step = BIT_ERRORS * STEP / 3600 * _level(one, ERROR_SPREAD, rng) * slower
    counts = rng.poisson(a_step).astype(np.float64).cumsum(axis=0)
    steps = int(3600 / STEP)
    before = np.concatenate([np.full((steps, one.nodes), np.nan), counts[:-steps]])
    found: Floats = counts - before
    return found


def _clock(one: Fleet, slower: Floats, rng: np.random.Generator) -> Floats:
    noise = np.exp(rng.normal(0.0, CLOCK_NOISE, one.load.shape))
    droop = 1 - CLOCK_DROOP * one.load
    found: Floats = CLOCK * _level(one, CLOCK_SPREAD, rng) * droop * noise / slower
    return found


def _celsius(one: Fleet, slower: Floats, rng: np.random.Generator) -> Floats:
    """Return whole degrees, as sensors have them; a fault raises what the package warms up by."""
    inlet = rng.normal(INLET, INLET_SPREAD, one.nodes)
    watts = WATTS_IDLE + WATTS_LOAD * one.load
    own = np.exp(rng.normal(0.0, KELVIN_SPREAD, one.nodes))
    found: Floats = np.round(inlet + KELVIN_PER_WATT * own * watts * slower)
    return found


def _calm(one: Fleet, celsius: Floats) -> Floats:
    busy: Bools = one.load >= CALM
    return np.where(busy, np.nan, celsius)
