"""How well rules find planted faults: rules on peers beside a constant and a z-score; and what memory of failures saves.

Prints one JSON line per metric and detector, then per threshold of the memory on Titan's GPUs; with --page it writes them into
docs/placement.md. Nodes carry the loads of the traces, day after day; the hardware of 1 % of them gets a fault for half a day.

    python -P bench/detection/run.py --traces DAY.csv.gz,... [--titan GPUS.csv.gz] [--page docs/placement.md]

Without --traces, loads are generated. Traces: one machine a line, 288 percentages of CPU at 5 minutes; gzip or not.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import commandline
from bench.cluster import policy_object, rule
from bench.commandline import Line
from bench.detection import memory, series, tables
from bench.detection.planting import KINDS, Planted, planted
from bench.detection.series import STEP, Metric
from bench.placement.model import GENERATED
from bench.placement.model import traces as loads
from evaluator.core.model.arrays import Bools, Floats
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.parse import parse
from evaluator.core.readings.peer_metrics import INSTANCE_TYPE
from lab.interface import Period
from lab.replay.faults import Detection, Violation, detection, joined
from lab.replay.replay import Timing
from lab.replay.run import Backtest
from lab.replay.samples import Recording, Samples

TARGET = 6
"""Deviation of the rule on peers, the same for every metric, as in docs/peers.md. Chosen on the loads of 2011-03-03."""
FOR, CLEAR_AFTER = 3, 12
"""Readings of `for` (15 min) and `clearAfter` (1 h), the same for every detector."""
Z_SCORES = (2.0, 2.5, 3.0, 4.0)
QUANTILES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999)
"""The constants tried, as quantiles of all healthy readings: the best one counts, which an operator cannot know in advance."""


def measured(
    traces: tuple[str, ...] = (GENERATED,),
    titan: str = "",
    page: str = "",
    nodes: int = 1000,
    days: int = 3,
    seeds: int = 3,
) -> Iterator[Line]:
    """Yield the lines; see the module."""
    lines: list[Line] = []
    for line in itertools.chain(_detection(traces, nodes, days, seeds), memory.lines(titan)):
        lines.append(line)
        yield line
    if page:
        file = Path(page)
        file.write_text(tables.into(file.read_text(), lines))


def _detection(files: Sequence[str], nodes: int, days: int, seeds: int) -> Iterator[Line]:
    load = np.concatenate([loads(file) for file in files])
    found: dict[tuple[str, str], list[tuple[Detection, dict[str, Detection]]]] = {}
    for seed in range(1, seeds + 1):
        for metric, faults in _worlds(load, nodes, days, seed):
            for detector, violations in _detectors(metric, faults):
                found.setdefault((metric.name, detector), []).append(_judged(violations, faults))
    for (metric_name, detector), results in found.items():
        yield _line(metric_name, detector, results)
    for detector in ("peers", "constant", "z-score"):
        results = [
            one
            for (name, by), all_ in found.items()
            if by == detector and name not in UNSUITED
            for one in all_
        ]
        yield _line("all that suit", detector, results) | {
            "aim": AIM if detector == "peers" else ""
        }


AIM = "f1 >= 0.9, false_per_1000_node_days <= 1, readings_to_detection <= 3"
UNSUITED = frozenset({"load", "celsius"})


def _worlds(load: Floats, nodes: int, days: int, seed: int) -> Iterator[tuple[Metric, Planted]]:
    """Yield each metric with faults of its own."""
    rng = np.random.default_rng(seed)
    one = series.fleet(load, nodes, days, rng)
    for make in (series.metrics, series.unsuited):
        for number in range(len(make(one, np.ones(one.load.shape), rng))):
            faults = planted(one, days, rng)
            metric = make(one, faults.slower, rng)[number]
            yield metric, faults


def _judged(violations: list[Violation], faults: Planted) -> tuple[Detection, dict[str, Detection]]:
    """Return the detection of all faults, and of each kind."""
    seconds = faults.seconds * faults.fleet.nodes
    whole = detection(violations, faults.labels, node_seconds=seconds)
    kinds = {
        kind: detection(violations, own, node_seconds=seconds)
        for kind, own in faults.by_kind.items()
    }
    return whole, kinds


def _detectors(metric: Metric, faults: Planted) -> Iterator[tuple[str, list[Violation]]]:
    yield "peers", _peers(metric, faults)
    signed = metric.values * metric.worse
    healthy = signed[faults.slower == 1]
    levels = np.nanquantile(healthy, QUANTILES)
    yield "constant", _best([_runs(signed > level) for level in levels], faults)
    scores = _z_scores(signed, faults.fleet.types)
    yield "z-score", _best([_runs(scores > level) for level in Z_SCORES], faults)


def _best(tried: list[list[Violation]], faults: Planted) -> list[Violation]:
    return max(tried, key=lambda one: _judged(one, faults)[0].f1)


def _z_scores(values: Floats, types: Floats) -> Floats:
    """Return the distance of each reading from the mean of its type, in standard deviations."""
    scores = np.full(values.shape, np.nan)
    known = ~np.isnan(values).all(axis=1)
    for kind in np.unique(types):
        where = np.ix_(known, types == kind)
        own = values[where]
        mean, spread = (f(own, axis=1, keepdims=True) for f in (np.nanmean, np.nanstd))
        scores[where] = (own - mean) / spread
    return scores


def _runs(matches: Bools) -> list[Violation]:
    """Return the violations of a rule that matches at these readings, shape (readings, nodes), with `for` and `clearAfter`."""
    readings, nodes = matches.shape
    since = np.zeros(nodes)
    clear = np.zeros(nodes)
    violated = np.zeros(nodes, bool)
    begun = np.zeros(nodes)
    found = []
    for row in range(readings):
        since = np.where(matches[row], since + 1, 0)
        clear = np.where(matches[row], 0, clear + 1)
        begins = ~violated & (since > FOR)
        ends = violated & (clear > CLEAR_AFTER)
        begun[begins] = row
        found += [_violation(node, begun[node], row) for node in ends.nonzero()[0].tolist()]
        violated = (violated | begins) & ~ends
    return found + [
        _violation(node, begun[node], readings) for node in violated.nonzero()[0].tolist()
    ]


def _violation(node: int, begin: float, end: float) -> Violation:
    return Violation(f"node-{node:04}", float(begin) * STEP, float(end) * STEP)


def _peers(metric: Metric, faults: Planted) -> list[Violation]:
    """Return the violations that the evaluator finds by a rule on peers."""
    readings, count = metric.values.shape
    names = NodeIndex(f"node-{node:04}" for node in range(count))
    operator = "GreaterThan" if metric.worse > 0 else "LessThan"
    strategy = {
        "for": f"{FOR * STEP:.0f}s",
        "clearAfter": f"{CLEAR_AFTER * STEP:.0f}s",
        "rules": [rule(f"{metric.name}:peer_deviation", TARGET * metric.worse, operator)],
    }
    policy = parse(policy_object("peers", {"dontschedule": strategy}))
    types = faults.fleet.types
    labels = {name: {INSTANCE_TYPE: f"type-{types[node]}"} for node, name in enumerate(names)}
    times = np.repeat(np.arange(readings) * STEP, count)
    values = metric.values.reshape(-1)
    samples = Samples(
        times, np.tile(np.arange(count), readings), values, (~np.isnan(values)).astype(np.int32)
    )
    period = Period(0.0, readings * STEP)
    backtest = Backtest(
        [policy], names, Timing(STEP, 1.5 * STEP), period, start=0.0, labels=labels.__getitem__
    )
    backtest.run(Recording(names, {metric.name: samples}), period.end)
    (result,) = backtest.result().policies
    intervals = [one for track in result.tracks for one in track.intervals]
    return joined(Violation(names[one.node], one.start, one.end) for one in intervals)


def _line(
    metric: str, detector: str, results: Sequence[tuple[Detection, dict[str, Detection]]]
) -> dict[str, Any]:
    whole = sum((one for one, _ in results[1:]), results[0][0])
    kinds = {
        kind: sum((by[kind] for _, by in results[1:]), results[0][1][kind]).recall for kind in KINDS
    }
    return {
        "benchmark": "detection",
        "metric": metric,
        "detector": detector,
        "f1": round(whole.f1, 3),
        "precision": round(whole.precision, 3),
        "recall": round(whole.recall, 3),
        "false_per_1000_node_days": round(whole.false_per_1000_node_days, 2),
        "readings_to_detection": round(whole.delay(0.5) / STEP - FOR, 2),
        "found": {kind: round(share, 3) for kind, share in kinds.items()},
        "faults": whole.faults,
        "node_days": round(whole.node_days),
    }


if __name__ == "__main__":
    commandline.run(measured)
