"""Measures processes and requests, and compares results with aims."""

import contextlib
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import yardstick

_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process.

    The clock behind utime and stime of /proc/<pid>/stat, without their rounding to hundredths.
    Raises OSError if the process does not exist.
    """
    return time.clock_gettime(
        ~pid << 3 | 2
    )  # CPUCLOCK_SCHED of that process, as clock_getcpuclockid(3) makes it


def queued_seconds(pid: int) -> float:
    """Return how long the current threads of a process were ready to run without a CPU, in seconds."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(
            FileNotFoundError, ProcessLookupError
        ):  # the thread has just ended
            total += int((task / "schedstat").read_text().split()[1])
    return total / 1e9


def memory_mb(pid: int, field: str = "VmRSS") -> float:
    """Return resident memory in megabytes (10^6): `VmRSS` now, `VmHWM` the peak since `forget_peak`."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024 / 1e6
    raise ValueError(f"no {field} in /proc/{pid}/status")


def forget_peak(pid: int) -> None:
    """Reset the peak of resident memory."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


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


def judged(line: Mapping[str, Any], aim: str) -> dict[str, Any]:
    """Return the line with its aim and whether it was met: `field <= number, field.inner >= number…`. Without an aim, unchanged.

    `field <= number loops` bounds the field's quotient by the duration of a loop (`bench.yardstick`), which is measured now
    and added to the line as `loop_ms`. Raises KeyError for an unknown field, ValueError for a malformed aim.
    """
    if not aim:
        return dict(line)
    parts = [part.split() for part in aim.split(",")]
    found = dict(line)
    if any(part[3:] for part in parts):
        found["loop_ms"] = round(yardstick.loop_ms(), 3)
    return {**found, "aim": aim, "met": all(_holds(found, part) for part in parts)}


def _holds(line: Mapping[str, Any], words: Sequence[str]) -> bool:
    path, relation, number, *unit = words
    if unit not in ([], ["loops"]):
        raise ValueError(f"unknown unit: {unit}")
    value: Any = line
    for name in path.split("."):
        value = value[name]
    return _RELATIONS[relation](float(value) / (line["loop_ms"] if unit else 1), float(number))
