"""Reports on the wire: what changed since the last one, and back. Values travel by their metric's place in the list.

Both ends keep the subscription's list of names; a report without its generation is not understood by anybody.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from plimsoll.text import SentenceError
from wire import telemetry_pb2 as pb

_MOST_SAMPLES = 2**31 - 1


class MalformedReportError(SentenceError, ValueError):
    """A report that breaks the protocol; the stream it came on cannot be trusted any further."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one round found of the subscribed metrics. A metric in neither mapping is absent on this node.

    `several` are the metrics with that many samples, 2 or more, and so without one value; `unread` those whose source
    could not be read, of which nothing is known this time.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    several: Mapping[str, int] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Delta:
    """What one report says, by name; metrics it does not name were read again and are as they were.

    `several` are metrics with that many samples, 2 or more, and so without one value. `unread` are metrics of which
    nothing is known this time: they keep their reading, and its age.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    absent: Iterable[str] = ()
    several: Mapping[str, int] = field(default_factory=dict)
    unread: Iterable[str] = ()


def encode(
    report: pb.Report, metrics: Sequence[str], now: Snapshot, last: Snapshot | None
) -> pb.Report:
    """Fill a report with what changed since `last`, or with everything if there is no last; returns it."""
    report.full = last is None
    before = last or Snapshot()
    for index, name in enumerate(metrics):
        if name in now.values:
            if name not in before.values or not _same(now.values[name], before.values[name]):
                report.indices.append(index)
                report.values.append(now.values[name])
        elif name in now.several:
            if now.several[name] != before.several.get(name):
                report.several.add(index=index, samples=now.several[name])
        elif name in now.unread:
            report.unread.append(index)
        elif (
            report.full or name in before.values or name in before.several or name in before.unread
        ):
            report.absent.append(index)
    return report


def decode(report: pb.Report, metrics: Sequence[str]) -> Delta:
    """What a report says of a subscription's metrics; a full one says of all of them. Raises MalformedReportError."""
    if len(report.indices) != len(report.values):
        raise MalformedReportError(f"{len(report.indices)} indices for {len(report.values)} values")
    said = len(report.indices) + len(report.several) + len(report.absent) + len(report.unread)
    # Before anything is made of them: there is no end to how many a hostile one can name.
    if said > len(metrics):
        raise MalformedReportError(
            f"{said} readings of the {len(metrics)} metrics subscribed to: one is named more than once"
        )
    for entry in report.several:
        if not 2 <= entry.samples <= _MOST_SAMPLES:
            raise MalformedReportError(
                f"a metric with several samples that has {entry.samples} samples"
            )
    try:
        values = {metrics[i]: v for i, v in zip(report.indices, report.values, strict=True)}
        several = {metrics[entry.index]: entry.samples for entry in report.several}
        absent = [metrics[i] for i in report.absent]
        unread = {metrics[i] for i in report.unread}
    except IndexError as error:
        raise MalformedReportError(
            f"an index beyond the {len(metrics)} metrics subscribed to"
        ) from error
    named = {*values, *several, *absent, *unread}
    if len(named) != said:
        raise MalformedReportError("a metric that is named more than once")
    if report.full:
        absent += [name for name in metrics if name not in named]
    return Delta(values, absent, several, unread)


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
