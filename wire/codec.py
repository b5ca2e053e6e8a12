"""Encodes and decodes reports: changes since the last report, with metrics as indices into the subscription's list.

Both ends keep the list of names; a report is only valid with the generation of its subscription.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from plimsoll import rfc3339
from plimsoll.text import SentenceError, one_line
from wire import failing_rules, problems
from wire import telemetry_pb2 as pb
from wire.failing_rules import FailingRule, FailingRules
from wire.problems import ProblemCondition, ProblemEvent, Problems

_MOST_SAMPLES = 2**31 - 1
MOST_SIMILAR, MOST_NAMES = 50, 3
"""Metrics with similar names in one report, and names of each."""
MOST_MATCHING, MOST_MATCHING_BYTES = 500, 24 << 10
"""Names that match patterns in one report, and bytes of them all."""
MOST_CAUSES, MOST_CAUSES_BYTES, LONGEST_CAUSE = 50, 8 << 10, 300
"""Causes in one report, bytes of them all, and characters of each."""
_SERIES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}", re.ASCII)


class MalformedReportError(SentenceError, ValueError):
    """A report violates the protocol; its stream must be closed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The subscribed metrics after a scrape. A metric in neither mapping is absent on this node.

    `several`: number of samples of metrics with 2 or more, which have no single value. `unread`: metrics whose source could not
    be read and whose value is unknown.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    several: Mapping[str, int] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    causes: Mapping[str, str] = field(default_factory=dict)
    """What values come from, for metrics that say so."""
    never_had: frozenset[str] = frozenset()
    """Absent metrics that the agent looked for, and that the node has not had since the agent started."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The contents of one report by name; metrics not named were read again and are unchanged.

    `several`: metrics with 2 or more samples, which have no single value. `unread`: metrics of unknown value, which keep their
    reading and its age.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    absent: Iterable[str] = ()
    several: Mapping[str, int] = field(default_factory=dict)
    unread: Iterable[str] = ()
    similar: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Absent metrics and the node's series with similar names."""
    matching: tuple[str, ...] = ()
    """Metrics that match the subscription's patterns."""
    failing: FailingRules | None = None
    """The recording rules that fail; None: as reported before."""
    problems: Problems | None = None
    """The problems of the node; None: as reported before."""
    causes: Mapping[str, str] | None = None
    """What the values of metrics come from; None: as reported before."""
    never_had: frozenset[str] = frozenset()
    """Those of `absent` that the agent looked for, and that the node has not had since the agent started."""


def encode(
    report: pb.Report, metrics: Sequence[str], now: Snapshot, last: Snapshot | None
) -> pb.Report:
    """Fill a report with what changed since `last`, or with everything if there is none; returns it."""
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
        elif report.full or not _as_absent(name, now, before):
            report.absent.append(index)
            if name in now.never_had:
                report.never_had.append(index)
    if now.causes != before.causes:
        _add_causes(report, metrics, now.causes)
    return report


def _as_absent(name: str, now: Snapshot, before: Snapshot) -> bool:
    """Return whether an absent metric was absent before, for the same reason."""
    known = name in before.values or name in before.several or name in before.unread
    return not known and (name in now.never_had) == (name in before.never_had)


def _add_causes(report: pb.Report, metrics: Sequence[str], causes: Mapping[str, str]) -> None:
    """Add the causes of values, as many as a report may have."""
    # Also if there are none: the field itself says that they have changed.
    report.causes.SetInParent()
    size = 0
    for index, name in enumerate(metrics):
        if name in causes:
            text = one_line(causes[name], LONGEST_CAUSE)
            size += len(text.encode())
            if len(report.causes.causes) == MOST_CAUSES or size > MOST_CAUSES_BYTES:
                return
            report.causes.causes.add(index=index, text=text)


def add_similar(
    report: pb.Report, metrics: Sequence[str], similar: Mapping[str, Sequence[str]]
) -> None:
    """Add the names of series that are similar to absent metrics."""
    for index, name in enumerate(metrics):
        if name in similar:
            report.similar.add(index=index, names=similar[name])


def add_matching(report: pb.Report, names: Iterable[str]) -> None:
    """Add the names of metrics that match the subscription's patterns, as many as a report may have."""
    size = 0
    for name in names:
        size += len(name)
        if len(report.matching) == MOST_MATCHING or size > MOST_MATCHING_BYTES:
            return
        report.matching.append(name)


def add_failing_rules(report: pb.Report, failing: Mapping[FailingRule, float]) -> None:
    """Add failing rules with their seconds, as many as a report may have; the others are counted."""
    # Also if there are none: the field itself says that they have changed.
    report.failing_rules.SetInParent()
    size = 0
    for rule, seconds in failing.items():
        texts = [one_line(text, failing_rules.LONGEST) for text in rule]
        size += sum(len(text.encode()) for text in texts)
        if len(report.failing_rules.rules) == failing_rules.MOST or size > failing_rules.MOST_BYTES:
            break
        fields = dict(zip(FailingRule._fields, texts, strict=True))
        report.failing_rules.rules.add(**fields, seconds=max(0, round(seconds)))
    report.failing_rules.more = len(failing) - len(report.failing_rules.rules)


def add_problems(report: pb.Report, found: Problems) -> None:
    """Add the problems of the node, as many as a report may have; conditions come before events."""
    report.problems.SetInParent()
    size = 0
    for condition in found.conditions[: problems.MOST_CONDITIONS]:
        message = one_line(condition.message, problems.LONGEST)
        size += len(condition.type) + len(condition.reason) + len(message.encode())
        if size > problems.MOST_BYTES:
            message = ""
        report.problems.conditions.add(**condition._replace(message=message)._asdict())
    for event in found.events[: problems.MOST_EVENTS]:
        source = one_line(event.source, problems.LONGEST_NAME)
        message = one_line(event.message, problems.LONGEST)
        size += len(source.encode()) + len(event.reason) + len(message.encode())
        if size > problems.MOST_BYTES:
            return
        sent = event._replace(
            source=source, message=message, times=min(event.times, problems.MOST_TIMES)
        )
        report.problems.events.add(**sent._asdict())


def decode(report: pb.Report, metrics: Sequence[str]) -> Delta:
    """Return a report's changes to a subscription's metrics; a full report covers all of them. Raises MalformedReportError."""
    if len(report.indices) != len(report.values):
        raise MalformedReportError(f"{len(report.indices)} indices for {len(report.values)} values")
    count = len(report.indices) + len(report.several) + len(report.absent) + len(report.unread)
    # Checked before allocating: a hostile report may name any number.
    if count > len(metrics):
        raise MalformedReportError(
            f"{count} readings of the {len(metrics)} metrics subscribed to: one is named more than once"
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
    if len(named) != count:
        raise MalformedReportError("a metric that is named more than once")
    if report.full:
        absent += [name for name in metrics if name not in named]
    never_had = _never_had(report, metrics, absent)
    return Delta(
        values,
        absent,
        several,
        unread,
        _similar(report, metrics),
        _matching(report),
        _failing_rules(report),
        _problems(report),
        _causes(report, metrics),
        never_had,
    )


def _never_had(report: pb.Report, metrics: Sequence[str], absent: Sequence[str]) -> frozenset[str]:
    if not report.never_had:
        return frozenset()
    if len(report.never_had) > len(metrics) or max(report.never_had) >= len(metrics):
        raise MalformedReportError(f"an index beyond the {len(metrics)} metrics subscribed to")
    found = frozenset(metrics[i] for i in report.never_had)
    if len(found) < len(report.never_had) or not found.issubset(absent):
        raise MalformedReportError(
            "a metric that the node never had and that is not absent, or named twice"
        )
    return found


def _similar(report: pb.Report, metrics: Sequence[str]) -> dict[str, tuple[str, ...]]:
    if len(report.similar) > MOST_SIMILAR:
        raise MalformedReportError(f"similar names for {len(report.similar)} metrics")
    found: dict[str, tuple[str, ...]] = {}
    for entry in report.similar:
        if entry.index >= len(metrics):
            raise MalformedReportError(f"an index beyond the {len(metrics)} metrics subscribed to")
        names = tuple(entry.names)
        if len(names) > MOST_NAMES or not all(map(_SERIES.fullmatch, names)):
            raise MalformedReportError("similar names that are too many or no names of series")
        found[metrics[entry.index]] = names
    return found


def _matching(report: pb.Report) -> tuple[str, ...]:
    names = tuple(report.matching)
    if len(names) > MOST_MATCHING or not all(map(_SERIES.fullmatch, names)):
        raise MalformedReportError("matching names that are too many or no names of series")
    return names


def _failing_rules(report: pb.Report) -> FailingRules | None:
    if not report.HasField("failing_rules"):
        return failing_rules.NONE if report.full else None
    found = report.failing_rules
    if len(found.rules) > failing_rules.MOST:
        raise MalformedReportError(f"{len(found.rules)} failing rules")
    seconds: dict[FailingRule, float] = {}
    for entry in found.rules:
        texts = (entry.file, entry.group, entry.rule, entry.reason, entry.text)
        if max(map(len, texts)) > failing_rules.LONGEST:
            raise MalformedReportError("a failing rule whose texts are too long")
        seconds[FailingRule(*(one_line(text, failing_rules.LONGEST) for text in texts))] = (
            entry.seconds
        )
    return FailingRules(seconds, found.more)


def _problems(report: pb.Report) -> Problems | None:
    if not report.HasField("problems"):
        return problems.NONE if report.full else None
    found = report.problems
    if (
        len(found.conditions) > problems.MOST_CONDITIONS
        or len(found.events) > problems.MOST_EVENTS
        or found.ByteSize() > 2 * problems.MOST_BYTES
    ):
        raise MalformedReportError("too many problems, or too much text of them")
    conditions = tuple(
        ProblemCondition(c.type, c.active, c.reason, one_line(c.message, problems.LONGEST), c.since)
        for c in found.conditions
    )
    events = tuple(
        ProblemEvent(
            one_line(e.source, problems.LONGEST_NAME),
            e.reason,
            one_line(e.message, problems.LONGEST),
            min(max(1, e.times), problems.MOST_TIMES),
        )
        for e in found.events
    )
    if len({c.type for c in conditions}) < len(conditions) or not (
        all(problems.TYPE.fullmatch(c.type) for c in conditions)
        and all(0 <= c.since <= rfc3339.LATEST for c in conditions)
        and all(problems.REASON.fullmatch(c.reason) for c in conditions)
        and all(problems.REASON.fullmatch(e.reason) for e in events)
    ):
        raise MalformedReportError("a problem whose type, reason or time is invalid")
    return Problems(conditions, events)


def _causes(report: pb.Report, metrics: Sequence[str]) -> Mapping[str, str] | None:
    if not report.HasField("causes"):
        return {} if report.full else None
    found = report.causes.causes
    if len(found) > MOST_CAUSES or any(len(entry.text) > LONGEST_CAUSE for entry in found):
        raise MalformedReportError("too many causes, or too much text of one")
    if any(entry.index >= len(metrics) for entry in found):
        raise MalformedReportError(f"an index beyond the {len(metrics)} metrics subscribed to")
    return {metrics[entry.index]: one_line(entry.text, LONGEST_CAUSE) for entry in found}


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
