"""What a memory of failures would have saved on Titan's GPUs, by the threshold of the score above which a GPU gets no work.

Titan (OLCF), a line per time of service of a GPU: serial number, place, insertion, removal, and the failure that ended it (DBE:
double-bit error, OTB: off the bus). G. Ostrouchov et al., "GPU Lifetimes on Titan Supercomputer", SC20. A GPU that gets no work
is assumed not to fail meanwhile; what work elsewhere instead of it costs is not counted.
"""

import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from bench.commandline import Line

_DAY = 86_400.0
HALF_LIFE = 30 * _DAY
"""The example of docs/peers.md."""
THRESHOLDS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, math.inf)
"""0: remove at the first failure; infinity: never."""
_TIME = "%Y-%m-%d %H:%M:%S"


class Service(NamedTuple):
    """A time of service (Unix seconds), and whether a failure ended it."""

    begin: float
    end: float
    failed: bool


class Saved(NamedTuple):
    """Failures after the first of a GPU, those that were avoided, and the days without work."""

    repeats: int
    avoided: int
    days: float


def lines(file: str) -> Iterator[Line]:
    """Yield a line per threshold; none without a file."""
    if not file:
        return
    gpus = read(file)
    total = sum(one.end - one.begin for own in gpus for one in own) / _DAY
    for threshold in THRESHOLDS:
        found = [saved(own, threshold) for own in gpus]
        repeats, avoided, days = (sum(part) for part in zip(*found, strict=True))
        yield {
            "benchmark": "memory",
            "threshold": str(threshold),
            "repeat_failures": repeats,
            "avoided": avoided,
            "gpu_days_given_up": round(days),
            "share_of_gpu_days_percent": round(100 * days / total, 3),
            "gpu_days_per_failure_avoided": round(days / avoided, 1) if avoided else None,
            "gpus": len(gpus),
        }


def read(file: str) -> Sequence[Sequence[Service]]:
    """Return the times of service of each GPU, in order. Raises SystemExit with the reason if the file cannot be read."""
    found: dict[str, list[Service]] = {}
    try:
        with gzip.open(file, "rt") as text:
            for row in csv.DictReader(text):
                if not row["insert"] or not row["remove"]:
                    continue  # never in service, or unknown
                begin, end = (
                    datetime.strptime(f"{row[name]}+0000", f"{_TIME}%z").timestamp()
                    for name in ("insert", "remove")
                )
                found.setdefault(row["SN"], []).append(Service(begin, end, bool(row["event"])))
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise SystemExit(f"{file}: {error}") from error
    return [sorted(own) for own in found.values()]


def saved(services: Sequence[Service], threshold: float) -> Saved:
    """Return what a GPU's memory saves if it gets no work while its score is above a threshold."""
    score, scored_at, out_until = 0.0, -math.inf, -math.inf
    failures = repeats = avoided = 0
    days = 0.0
    for one in services:
        days += max(0.0, min(one.end, out_until) - one.begin)
        if not one.failed:
            continue
        failures += 1
        repeats += failures > 1
        if one.end < out_until:
            avoided += 1
            continue
        score = score * 2.0 ** ((scored_at - one.end) / HALF_LIFE) + 1 if score else 1.0
        scored_at = one.end
        out_until = _below(score, scored_at, threshold)
    return Saved(repeats, avoided, days / _DAY)


def _below(score: float, at: float, threshold: float) -> float:
    """Return when a score has decayed to a threshold."""
    if score <= threshold:
        return at
    return math.inf if threshold <= 0 else at + HALF_LIFE * math.log2(score / threshold)
