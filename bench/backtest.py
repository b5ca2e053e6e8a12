"""Backtest: CPU seconds and memory of replaying generated readings of many nodes, and of reading a text dump.

    python -P bench/backtest.py [--nodes 1000] [--days 7] [--dump]

Aims: 7 days of 1,000 nodes and 3 rules at a step of 15 s (40,320 steps) within 20 s of CPU and 1 GB. Without --dump, readings
are made day by day as arrays, in the way a source delivers them, and neither making nor reading them is counted. With --dump,
the whole command reads them from a text as promtool writes it (10 GB for 7 days, in $TMPDIR).
"""

import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench import commandline
from bench.cluster import Object, policy_object, rule
from bench.commandline import Line
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.parse import parse
from lab.adapters.registry import REPLAYABLE
from lab.backtest.inputs.openmetrics import SeriesTable
from lab.interface import Period
from lab.replay.replay import Timing
from lab.replay.run import Backtest
from lab.replay.samples import Recording, Samples
from plimsoll.process import garbage

BEGIN, STEP, DAY = 1_763_164_800.0, 15.0, 86_400
METRICS = ("load_ratio", "memory_pressure", "disk_pressure")
LINES, LINES_SERIES = 500_000, 100
WEIGHTS = 0.995 ** np.arange(1000)
"""Of steps in a walk that returns to its mean."""
AIM_S = 20
"""Seconds of CPU for 7 days of 1,000 nodes."""


def policy(options: dict[str, str]) -> Object:
    """Return a policy of three rules; about 3 % of readings violate one."""
    rules = [rule(name, 80) for name in METRICS]
    strategies = {
        "dontschedule": {**options, "rules": rules[:2]},
        "deschedule": {**options, "rules": rules[2:]},
    }
    limits = {"plimsoll.io/max-nodes": "20%"}
    return policy_object("bench", strategies, namespace="ns", annotations=limits)


class Readings:
    """Random walks around 50, sampled at an offset of each node."""

    def __init__(self, nodes: int) -> None:
        self._rng = np.random.default_rng(1)
        self._nodes = nodes
        self._last = {metric: np.full(nodes, 50.0) for metric in METRICS}
        self._offsets = np.sort(self._rng.uniform(0, STEP, nodes))

    def day(self, number: int) -> dict[str, Samples]:
        """Return the samples of one day."""
        steps = int(DAY / STEP)
        ticks = BEGIN + DAY * number + STEP * np.arange(steps)
        times = (ticks[:, None] - self._offsets[::-1]).reshape(-1)
        positions = np.tile(np.arange(self._nodes), steps)
        found = {}
        for metric, last in self._last.items():
            walk = self._rng.normal(0, 1.6, (steps, self._nodes))
            walk[0] += last
            for row in range(1, steps):
                walk[row] += walk[row - 1] + (50 - walk[row - 1]) * 0.005
            self._last[metric] = walk[-1].copy()
            counts = np.ones(len(times), np.int32)
            found[metric] = Samples(times, positions, walk.reshape(-1), counts)
        return found


def replay(nodes: int, days: int, options: dict[str, str]) -> dict[str, float]:
    """Return CPU seconds and figures of one replay."""
    names = NodeIndex(f"node-{number:05d}" for number in range(nodes))
    period = Period(BEGIN, BEGIN + DAY * days)
    backtest = Backtest(
        [parse(policy(options))],
        names,
        Timing(STEP, 300.0),
        period,
        start=BEGIN - STEP,
        features=[replayable.start(replayable.options()) for replayable in REPLAYABLE],
    )
    source, spent = Readings(nodes), 0.0
    for day in range(days):
        recording = Recording(names, source.day(day))
        begun = time.process_time()
        backtest.run(recording, BEGIN + DAY * (day + 1))
        spent += time.process_time() - begun
        del recording
    begun = time.process_time()
    result = backtest.result()
    spent += time.process_time() - begun
    intervals = sum(len(track.intervals) for track in result.policies[0].tracks)
    return {
        "cpu_s": round(spent, 2),
        "steps": int(DAY / STEP * days),
        "evaluations": result.evaluations,
        "intervals": intervals,
    }


def lines_per_second(*, by_series: bool) -> int:
    """Return how many lines of a text are read in a second of CPU; sorted by series as promtool does, else by time."""
    heads = [f'load_ratio{{instance="10.0.0.{n}:9100", job="node"}}' for n in range(LINES_SERIES)]
    pairs = [(head, tick) for head in heads for tick in range(LINES // LINES_SERIES)]
    if not by_series:
        pairs.sort(key=lambda pair: pair[1])
    text = "".join(
        f"{head} {50 + n % 997 / 7} {BEGIN + STEP * tick:.3f}\n"
        for n, (head, tick) in enumerate(pairs)
    )
    file = io.BytesIO(text.encode())
    table, begun = SeriesTable(METRICS.__contains__), time.process_time()
    table.read("bench", file)
    return int(LINES / (time.process_time() - begun))


def write_dump(path: Path, nodes: int, days: int) -> int:
    """Write readings as `promtool tsdb dump-openmetrics` does, sorted by series; return the number of samples."""
    rng, steps = np.random.default_rng(1), int(DAY / STEP) * days
    offsets = rng.uniform(0, STEP, nodes)
    with path.open("w") as file:
        for metric in METRICS:
            for node in range(nodes):
                head = f'{metric}{{instance="node-{node:05d}:9100", job="node"}}'
                walk = 50 + np.convolve(rng.normal(0, 1.6, steps + 999), WEIGHTS, "valid")
                times = BEGIN + STEP * np.arange(1, steps + 1) - offsets[node]
                pairs = zip(walk.tolist(), times.tolist(), strict=True)
                file.writelines(f"{head} {value} {at:.3f}\n" for value, at in pairs)
        file.write("# EOF\n")
    return len(METRICS) * nodes * steps


def over_dump(nodes: int, days: int) -> Iterator[Line]:
    """Yield CPU seconds and memory of the command: reading a text, writing a cache, reading the cache."""
    with tempfile.TemporaryDirectory() as folder:
        text, manifest = Path(folder, "dump.om"), Path(folder, "policy.json")
        samples = write_dump(text, nodes, days)
        manifest.write_text(json.dumps(policy({})))
        command = (sys.executable, "-P", "-m", "evaluator", "backtest", "-f", str(manifest))
        cached = ("--cache", str(Path(folder, "cache")))
        for source, flags in (("text", ()), ("text, to a cache", cached), ("cache", cached)):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [*command, *flags, "--openmetrics", str(text)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            yield {
                "source": source,
                "cpu_s": round(cpu, 2),
                "mb": after.ru_maxrss // 1024,  # the most of all so far
                "samples": samples,
                "text_gb": round(text.stat().st_size / 1e9, 1),
            }


def measured(nodes: int = 1000, days: int = 7, *, dump: bool = False) -> Iterator[Line]:
    """Yield the lines; `dump`: of the whole command over a text."""
    size = {"nodes": nodes, "days": days}
    if dump:
        for figures in over_dump(nodes, days):
            yield {"benchmark": "backtest of a dump", **size, **figures}
        return
    limit = AIM_S * max(1.0, nodes / 1000) * days / 7
    for name, options in (("plain", {}), ("timed", {"for": "2m", "clearAfter": "5m"})):
        with garbage.rare_collections():
            replayed = replay(nodes, days, options)
        yield {"benchmark": f"backtest {name}", **size, **replayed, "aim": f"cpu_s <= {limit:g}"}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    yield {"benchmark": "backtest memory", **size, "mb": peak, "aim": "mb <= 1000"}
    for by_series in (True, False):
        order = "series" if by_series else "time"
        speed = lines_per_second(by_series=by_series)
        yield {"benchmark": f"openmetrics sorted by {order}", "lines_per_s": speed}


if __name__ == "__main__":
    commandline.run(measured)
