"""Keeps what was read from text files as arrays: reading these takes a twentieth of the time.

A cache is a folder: `content.json`, and one file per part with the arrays of each metric in numpy's format. Its name is a hash of
the files' sizes, times and ends, and of what was read from them, so a changed file has another cache.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from evaluator.core.model.node_index import NodeIndex
from lab.backtest.inputs.rules import Rules
from lab.backtest.inputs.source import BacktestError, Request
from lab.replay.run import Resources
from lab.replay.samples import Samples
from plimsoll import VERSION
from plimsoll.files import userfile

Metrics = Mapping[str, Samples]
Part = tuple[float, Callable[[], Metrics]]
"""The end of a part (Unix seconds, included), and a function that reads its samples; it may raise BacktestError."""
_VERSION = 3
_ENDS = 1 << 16
"""Bytes of the begin and the end of a file that are hashed."""


class Sample(NamedTuple):
    """When a sample was taken (Unix seconds), and its series as text."""

    time: float
    series: str

    def __str__(self) -> str:
        return f"{self.series} at {self.time:.15g}"


@dataclass(frozen=True)
class Content:
    """What files contain. `parts` yields consecutive parts."""

    first: Sample
    last: Sample
    nodes: NodeIndex
    allocatable: Resources
    parts: Callable[[], Iterator[Part]]
    close: Callable[[], None] = lambda: None
    """Deletes temporary files."""


def folder_of(cached: str, files: Sequence[str], request: Request, rules: Rules) -> Path:
    """Return the folder of the cache of some files and rules, which may not exist. Raises BacktestError."""
    read = [_VERSION, VERSION, sorted(request.metrics), request.node_label, request.stale_after]
    identity = json.dumps([*read, sorted(rules.records), *map(_identity, [*files, *rules.files])])
    return Path(cached, f"backtest-{hashlib.sha256(identity.encode()).hexdigest()[:24]}")


def _identity(name: str) -> Sequence[Any]:
    try:
        path = Path(name).resolve()
        with userfile.open_binary(name) as file:
            status = os.fstat(file.fileno())
            ends = hashlib.sha256(file.read(_ENDS))
            file.seek(max(0, status.st_size - _ENDS))
            ends.update(file.read(_ENDS))
    except OSError as error:
        raise BacktestError(f"{name}: cannot be read: {error.strerror}") from error
    return [str(path), status.st_size, status.st_mtime_ns, ends.hexdigest()]


def write(folder: Path, content: Content) -> None:
    """Write a cache; it appears when it is complete. Raises BacktestError."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.unfinished-"))
        try:
            _write(unfinished, content)
            if not folder.exists():  # another backtest may have written it meanwhile
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise BacktestError(f"cache {folder} cannot be written: {error.strerror}") from error


def _write(folder: Path, content: Content) -> None:
    ends: list[float] = []
    metrics: list[str] = []
    for number, (end, load) in enumerate(content.parts()):
        samples = load()
        ends.append(end)
        metrics = sorted(samples)
        with _part(folder, number).open("wb") as file:
            for metric in metrics:
                _save(file, samples[metric])
    known = {
        "first": content.first,
        "last": content.last,
        "nodes": [*content.nodes],
        "allocatable": content.allocatable,
        "ends": ends,
        "metrics": metrics,
    }
    (folder / "content.json").write_text(json.dumps(known))


def _save(file: BinaryIO, samples: Samples) -> None:
    counts = samples.counts
    narrow = np.int8 if counts.max(initial=0) <= np.iinfo(np.int8).max else np.int32
    for array in (
        samples.times,
        samples.nodes.astype(np.int32),
        samples.values,
        counts.astype(narrow),
    ):
        np.save(file, array)


def read(folder: Path) -> Content:
    """Return the content of a cache. Raises BacktestError."""
    try:
        known = json.loads((folder / "content.json").read_text())
        return Content(
            Sample(*known["first"]),
            Sample(*known["last"]),
            NodeIndex(known["nodes"]),
            known["allocatable"],
            partial(_parts, folder, known),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder) from error


def _parts(folder: Path, known: Mapping[str, Any]) -> Iterator[Part]:
    for number, end in enumerate(known["ends"]):
        yield end, partial(_load, folder, number, known["metrics"])


def _load(folder: Path, number: int, metrics: Sequence[str]) -> Metrics:
    try:
        with _part(folder, number).open("rb") as file:
            return {metric: _samples(file) for metric in metrics}
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(folder) from error


def _samples(file: BinaryIO) -> Samples:
    times, nodes, values, counts = (np.load(file, allow_pickle=False) for _ in range(4))
    return Samples(times, nodes.astype(np.intp), values, counts.astype(np.int32))


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.npy"


def _damaged(folder: Path) -> BacktestError:
    return BacktestError(f"cache {folder} is damaged: delete it")
