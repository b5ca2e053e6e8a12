"""Reads what a simulation runs on: traces, recorded use of nodes, and arrivals of pods."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from evaluator.core.model.arrays import Floats
from lab.backtest.inputs.dump import read_sources
from lab.backtest.inputs.source import Request, Source
from lab.closed_loop.loop import Timing
from lab.closed_loop.workload import (
    Arrivals,
    Nodes,
    SimulatedPod,
    TraceError,
    generated_traces,
    parse_traces,
    pods_at_once,
    workload,
)
from lab.replay.grid import align, never_reported
from lab.replay.samples import Samples, empty
from plimsoll.files import userfile
from plimsoll.text import SentenceError, shown

RECORDED = "node_cpu_used_cores"
"""The metric of a recording that a simulation needs: CPU in use on each node, in cores."""
ALLOCATABLE_CPU = "cpu"
_MACHINES = 1000
_STALE_AFTER = 300.0
_MOST_PODS = 200_000
_LONGEST_LINE, _LONGEST_POD, _MOST_LINES = 1 << 14, 1 << 16, 250_000
_MOST_VALUES = 2016
"""Values of one pod's use: a week."""
_MOST_CORES = 1e6
"""Cores in use on a node, or by a pod."""
_MOST_CELLS = 20_000_000
"""Nodes times steps: half a gigabyte."""
_COLUMNS = ("arrives", "life", "cpu_request", "memory_request", "cpu_limit", "cpu_use")


class InputError(SentenceError):
    """The input cannot be simulated; the message says what to do."""


@dataclass(frozen=True)
class Simulated:
    """Everything of a simulation but the system. `base`: cores in use beside the pods, shape (nodes,) or (steps, nodes)."""

    nodes: Nodes
    pods: Sequence[SimulatedPod]
    timing: Timing
    base: Floats
    about: str


def from_generator(
    traces: str, arrivals: Arrivals, nodes: Nodes, timing: Timing, seed: int
) -> Simulated:
    """Return a cluster of equal nodes whose pods follow traces: of a file, or generated. Raises InputError."""
    if nodes.count * timing.end / timing.step > _MOST_CELLS:
        raise InputError("too many nodes for so long: use fewer --nodes or a shorter --for")
    rng = np.random.default_rng(seed)
    found = read_traces(traces) if traces else generated_traces(_MACHINES, rng)
    count = pods_at_once(arrivals, nodes, found) * (1 + timing.end / arrivals.life)
    if count > _MOST_PODS / 2:
        raise InputError(
            f"the load takes {count:,.0f} pods: use fewer --nodes or --cores, a shorter --for, or traces that use more CPU"
        )
    pods = workload(arrivals, nodes, found, rng)
    if not pods:
        raise InputError(
            "the load is less than one pod: use a higher --load, more --nodes or --cores"
        )
    kind = "bursts" if arrivals.burst else "a steady stream"
    named = "traces of " + Path(traces).name if traces else "generated traces"
    about = (
        f"{len(pods)} pods with {named} arrive in {kind} on {nodes.count} nodes of {nodes.cores:g} cores, for a load of "
        f"{100 * arrivals.load:.0f} %"
    )
    return Simulated(nodes, pods, timing, np.zeros(nodes.count), about)


def read_traces(path: str) -> Floats:
    """Return the traces of a regular file, gzip or not. Raises InputError."""
    try:
        with userfile.open_binary(path) as file:
            content: Any = gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
            with io.TextIOWrapper(content, "utf-8") as text:
                return parse_traces(_bounded(path, text))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"{path}: not a text file, or an incomplete gzip file") from error
    except TraceError as error:
        raise InputError(f"{path}: {error}") from error


def _bounded(path: str, file: IO[str], longest: int = _LONGEST_LINE) -> Iterator[str]:
    """Yield the lines of a file. Raises InputError for one that is too long, or too many, before they are read to the end."""
    for _ in range(_MOST_LINES):
        line = file.readline(longest)
        if len(line) == longest:
            raise InputError(f"{path}: a line of more than {longest} characters")
        if not line:
            return
        yield line
    raise InputError(f"{path}: more than {_MOST_LINES:,} lines")


def from_recording(
    files: Sequence[Sequence[str]],
    arrivals: str,
    *,
    cores: float,
    node_label: str,
    begin: str,
    end: str,
    step: float,
) -> Simulated:
    """Return the recorded nodes, whose recorded use stays as it was, and pods of a file that arrive beside it.

    Raises InputError, BacktestError, OpenMetricsError.
    """
    request = Request((RECORDED,), begin, end, step, _STALE_AFTER, 0.0, node_label)
    source = read_sources(files, request)
    try:
        return _recorded(source, arrivals, cores=cores, step=step)
    finally:
        source.close()


def _recorded(source: Source, arrivals: str, *, cores: float, step: float) -> Simulated:
    names = tuple(source.nodes)
    steps = int((source.period.end - source.period.begin) // step)
    if not names or steps < 1:
        raise InputError(
            f"no samples of {RECORDED} in the range: record it, as the shipped rules do"
        )
    if steps * len(names) > _MOST_CELLS:
        raise InputError("too many nodes for so long: shorten the range with --from and --to")
    moments: Floats = source.period.begin + step * np.arange(steps, dtype=np.float64)
    base = _use(source, moments)
    known = {source.allocatable.get(name, {}).get(ALLOCATABLE_CPU, cores) for name in names}
    if len(known) != 1 or not min(known) > 0:
        raise InputError("the nodes' cores differ or are unknown: state them with --cores")
    nodes = Nodes(len(names), known.pop(), names)
    timing = Timing(end=steps * step, step=step)
    pods = read_arrivals(arrivals, timing.end)
    if not pods:
        raise InputError(
            f"{arrivals}: no pod arrives within the {timing.end:g} seconds of the recording"
        )
    about = f"{len(pods)} pods of {Path(arrivals).name} arrive beside the recorded use of {len(names)} nodes"
    return Simulated(nodes, pods, timing, base, about)


def _use(source: Source, moments: Floats) -> Floats:
    """Return the recorded use at these moments, shape (moments, nodes); a gap keeps the last value, none before is 0.

    Raises InputError.
    """
    parts = [part.metrics.get(RECORDED, empty()) for part, _ in source.parts()]
    samples = Samples(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    values = align(never_reported(len(source.nodes)), samples, moments).values
    known = values[~np.isnan(values)]
    if ((known < 0) | (known > _MOST_CORES)).any():
        raise InputError(f"{RECORDED} is not from 0 to {_MOST_CORES:g} cores: correct its rule")
    use: Floats = np.nan_to_num(values)
    return use


def read_arrivals(path: str, end: float) -> list[SimulatedPod]:
    """Return the pods of a CSV file in order of arrival. Raises InputError.

    Columns: `arrives` and `life` in seconds, `cpu_request`, `cpu_limit` and `cpu_use` in cores, `memory_request` in bytes, and
    `owner`, the pod's ReplicaSet, which may be missing. `cpu_use` may have several numbers with spaces between them, one for
    every five minutes.
    """
    try:
        with io.TextIOWrapper(userfile.open_binary(path), "utf-8", newline="") as text:
            pods = [*_rows(path, csv.DictReader(_bounded(path, text, _LONGEST_POD)))]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file: {error}") from error
    if not pods:
        raise InputError(f"{path}: no pods: expected the columns {', '.join(_COLUMNS)}")
    return sorted((pod for pod in pods if pod.arrives < end), key=lambda pod: pod.arrives)


def _rows(path: str, rows: "csv.DictReader[str]") -> Iterator[SimulatedPod]:
    if missing := [name for name in _COLUMNS if name not in (rows.fieldnames or ())]:
        raise InputError(f"{path}: no column {', '.join(missing)}")
    values = 1
    for number, row in enumerate(rows):
        if number >= _MOST_PODS:
            raise InputError(f"{path}: more than {_MOST_PODS:,} pods")
        try:
            arrives, life, cpu, memory, limit = (float(row[name]) for name in _COLUMNS[:-1])
            use = np.array([float(text) for text in row["cpu_use"].split()])
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}, line {rows.line_num}: not a number: {error}") from error
        numbers = np.array([arrives, life, cpu, memory, limit, *use])
        if not len(use) or not np.isfinite(numbers).all() or (numbers < 0).any():
            raise InputError(f"{path}, line {rows.line_num}: numbers must be finite and at least 0")
        if max(cpu, limit, *use) > _MOST_CORES:
            raise InputError(
                f"{path}, line {rows.line_num}: a pod has at most {_MOST_CORES:g} cores"
            )
        if len(use) > _MOST_VALUES:
            raise InputError(
                f"{path}, line {rows.line_num}: cpu_use has more than a week of values"
            )
        values = max(values, len(use))
        if values * number > _MOST_CELLS:
            raise InputError(f"{path}: too many pods with so many values of cpu_use")
        owner = (row.get("owner") or "").strip()
        if len(owner) > 253:
            raise InputError(f"{path}, line {rows.line_num}: owner {shown(owner)} is too long")
        yield SimulatedPod(f"pod-{number:05}", arrives, life, cpu, memory, limit, use, owner)
