"""Runs scenarios in the model engine: the closed loop of `plimsoll simulate`, over virtual time."""

import gzip
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from bench.placement.scenarios import World, compressed, scenario
from bench.placement.systems import SYSTEMS
from evaluator.core.model.arrays import Floats
from lab.closed_loop.loop import ClosedLoop
from lab.closed_loop.use import Outcome
from lab.closed_loop.workload import TraceError, generated_traces, parse_traces

GENERATED = "generated"
_MACHINES = 1000


@lru_cache
def traces(file: str) -> Floats:
    """Return the traces of a file, or generated ones. Raises SystemExit with the reason if it cannot be read."""
    if file == GENERATED:
        return generated_traces(_MACHINES, np.random.default_rng(0))
    try:
        with (gzip.open if file.endswith(".gz") else open)(file, "rt") as lines:
            return parse_traces(lines)
    except (OSError, EOFError, UnicodeDecodeError, TraceError) as error:
        raise SystemExit(f"{file}: {error}") from error


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation: a system in a scenario, by name, with one file of traces and one seed; `factor`: of `compressed`."""

    system: str
    scenario: str
    file: str
    seed: int
    factor: float = 1.0

    @property
    def day(self) -> str:
        """Return the name of the traces."""
        return Path(self.file).name.partition(".")[0]

    def world(self) -> World:
        """Return everything but the system; it depends on the seed alone, so every system gets the same."""
        made = scenario(self.scenario).world(traces(self.file), np.random.default_rng(self.seed))
        return compressed(made, self.factor)


@dataclass(frozen=True)
class Ran:
    """A simulation's result. `cpu`: seconds of CPU, of the loop and the system together."""

    run: Run
    outcome: Outcome
    cpu: float


def simulate(run: Run) -> Ran:
    """Run one simulation; ties depend on the seed alone."""
    begin = time.process_time()
    world = run.world()
    loop = ClosedLoop(
        world.nodes,
        world.pods,
        SYSTEMS[run.system](world.nodes),
        world.timing,
        np.random.default_rng(run.seed + 1000),
        base=world.base,
    )
    return Ran(run, loop.run(), time.process_time() - begin)


def simulated(runs: Sequence[Run], workers: int) -> Iterator[Ran]:
    """Yield the results in the order of `runs`, from several processes."""
    if workers == 1:
        yield from map(simulate, runs)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(simulate, runs, chunksize=2)
