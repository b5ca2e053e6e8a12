"""Measures processes and requests, and compares results with aims.

To compare figures between machines, an aim may be in loops: a `loop` is a fixed amount of work like the evaluator's, lookups
in dicts, short strings, JSON and comparisons of arrays. It takes a millisecond of CPU time on an idle core of the machine
behind docs/performance.md, so an aim of 10 loops is 10 ms there and 30 ms on a core a third as fast.
"""

import contextlib
import json
import operator
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

LOOPS = 5
"""Loops per measurement; their median counts."""

_NAMES = [f"node-{number}" for number in range(300)]
_BY_NAME = {name: float(index) for index, name in enumerate(_NAMES)}
_COLUMN = np.arange(5000.0)
_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


def family(pid: int) -> list[int]:
    """Return a process and its children: the evaluator has one for the agents' port."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *map(int, children.read_text().split() if children.exists() else ())]


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process and its children.

    The clock behind utime and stime of /proc/<pid>/stat, without their rounding to hundredths.
    Raises OSError if the process does not exist.
    """
    # CPUCLOCK_SCHED of a process, as clock_getcpuclockid(3) makes it
    return sum(time.clock_gettime(~one << 3 | 2) for one in family(pid))


def queued_seconds(pid: int) -> float:
    """Return how long the current threads of a process and its children were ready to run without a CPU, in seconds."""
    total = 0
    for task in (task for one in family(pid) for task in Path(f"/proc/{one}/task").iterdir()):
        with contextlib.suppress(
            FileNotFoundError, ProcessLookupError
        ):  # the thread has just ended
            total += int((task / "schedstat").read_text().split()[1])
    return total / 1e9


def memory_mb(pid: int, field: str = "VmRSS") -> float:
    """Return resident memory of a process and its children in megabytes (10^6): `VmRSS` now, `VmHWM` the peak of each since
    `forget_peak`.
    """
    return sum(_status_kb(one, field) for one in family(pid)) * 1024 / 1e6


def _status_kb(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0])
    raise ValueError(f"no {field} in /proc/{pid}/status")


def forget_peak(pid: int) -> None:
    """Reset the peak of resident memory."""
    for one in family(pid):
        Path(f"/proc/{one}/clear_refs").write_text("5")


def settle(pid: int, *, below: float = 0.03, window: float = 0.25, patience: float = 120.0) -> None:
    """Wait until a process uses hardly any CPU, after its startup. Raises TimeoutError."""
    until = time.monotonic() + patience
    calm = 0
    while calm < 3:
        before = cpu_seconds(pid)
        time.sleep(window)
        calm = calm + 1 if cpu_seconds(pid) - before < below * window else 0
        if time.monotonic() > until:
            raise TimeoutError(f"process {pid} does not come to rest within {patience:g} s")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of values; `share` in 0..1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def latencies(seconds: Sequence[float], digits: int) -> dict[str, float]:
    """Return median, 99th percentile and maximum in milliseconds."""
    figures = {
        "p50_ms": statistics.median(seconds),
        "p99_ms": percentile(seconds, 0.99),
        "max_ms": max(seconds),
    }
    return {name: round(1000 * value, digits) for name, value in figures.items()}


def judged(line: Mapping[str, Any], aim: str) -> dict[str, Any]:
    """Return the line with its aim and whether it was met: `field <= number, field.inner >= number…`. Without an aim, unchanged.

    `field <= number loops` bounds the field's quotient by the duration of a loop (`loop`), which is measured now
    and added to the line as `loop_ms`. Raises KeyError for an unknown field, ValueError for a malformed aim.
    """
    if not aim:
        return dict(line)
    parts = [part.split() for part in aim.split(",")]
    found = dict(line)
    if any(part[3:] for part in parts):
        found["loop_ms"] = round(loop_ms(), 3)
    return {**found, "aim": aim, "met": all(_holds(found, part) for part in parts)}


def _holds(line: Mapping[str, Any], words: Sequence[str]) -> bool:
    path, relation, number, *unit = words
    if unit not in ([], ["loops"]):
        raise ValueError(f"unknown unit: {unit}")
    value: Any = line
    for name in path.split("."):
        value = value[name]
    return _RELATIONS[relation](float(value) / (line["loop_ms"] if unit else 1), float(number))


def loop() -> None:
    """Do the work once."""
    for _ in range(8):
        kept = {name: value for name, value in _BY_NAME.items() if _BY_NAME[name[:7]] < 1e3}
        text = json.dumps([f"{name}={value:.0f}" for name, value in kept.items()])
        assert len(json.loads(text)) == len(_NAMES)
        for limit in range(6):
            np.flatnonzero(limit * 100 < _COLUMN)


def loop_ms() -> float:
    """Return the CPU time of a loop in ms, now."""
    times = []
    for _ in range(LOOPS):
        begin = time.thread_time()
        loop()
        times.append(time.thread_time() - begin)
    return statistics.median(times) * 1000
