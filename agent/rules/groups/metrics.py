"""Metrics about the agent's rules: failures with reasons, and the interval, duration and size of each group."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.rules.groups.file import RuleError
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family

REASONS: Mapping[str, str] = {
    "duplicate": "an earlier rule records the same series, or the file has another group of this name",
    "evaluation": "the expression cannot be computed from these samples, such as a match of many to many",
    "invalid": "a field is unknown or missing, a name is not a valid metric or label name, ...",
    "limit": "the rule yields more series than the `limit` of its group",
    "memory": "samples or results would exceed --rules.max-memory; the group records nothing, or the rule is paused for a minute",
    "parse": "the expression is not valid PromQL",
    "timeout": "the evaluation took longer than --rules.timeout, or its group five times that; the rule is paused for a minute",
    "type": "the expression's types do not fit, such as a rate of an instant vector",
    "unsupported": "the expression uses PromQL that the agent does not support; the log has the details",
}

METRICS = Table(
    Metric(
        "plimsoll_rule_error",
        "gauge",
        "1 for each rule that fails now, with the reason; an empty rule label means the whole group.",
        "",
        ("group", "rule", "reason"),
    ),
    Metric(
        "plimsoll_rule_file_error",
        "gauge",
        "1 for each rule file that cannot be used now, with the reason; its previous rules stay active.",
        "",
        ("file", "reason"),
    ),
    Metric(
        "plimsoll_rule_group_rules",
        "gauge",
        "Rules of the group that are evaluated.",
        "",
        ("group",),
    ),
    Metric(
        "plimsoll_rule_group_interval_seconds",
        "gauge",
        "Current evaluation interval of the group.",
        "",
        ("group",),
        "seconds",
    ),
    Metric(
        "plimsoll_rule_group_last_duration_seconds",
        "gauge",
        "Duration of the last evaluation, without reading the sources.",
        "",
        ("group",),
        "seconds",
    ),
    Metric(
        "plimsoll_rule_group_last_evaluation_timestamp_seconds",
        "gauge",
        "Unix time of the group's last evaluation.",
        "",
        ("group",),
        "seconds",
    ),
    Metric(
        "plimsoll_rule_group_iterations_missed_total",
        "counter",
        "Evaluations skipped because the previous one, or a source, took too long.",
        "",
        ("group",),
    ),
    Metric(
        "plimsoll_rule_group_series",
        "gauge",
        "Series of which samples are kept for the group; of one that several groups need, for the first.",
        "",
        ("group",),
    ),
    Metric(
        "plimsoll_rule_group_samples",
        "gauge",
        "Samples kept for the group; see its series.",
        "",
        ("group",),
    ),
    Metric(
        "plimsoll_rule_group_memory_bytes",
        "gauge",
        "What the samples and results kept for the group take in memory, about; the sum is what --rules.max-memory limits.",
        "",
        ("group",),
        "bytes",
    ),
)


@dataclass(frozen=True, slots=True)
class GroupAccount:
    """The statistics of one group, one per table column."""

    group: str
    rules: int
    interval: float
    duration: float
    timestamp: float | None
    missed: int
    series: int
    samples: int
    bytes: int


def families(
    groups: Iterable[GroupAccount],
    errors: Iterable[RuleError],
    files: Iterable[tuple[str, str]],
) -> Iterator[Family]:
    """Return all families; `files`: paths of unusable files with the reason."""
    listed = tuple(groups)
    rows = sorted({(error.group, error.rule, error.reason) for error in errors})
    yield METRICS.family("plimsoll_rule_error", ((row, 1.0) for row in rows))
    yield METRICS.family("plimsoll_rule_file_error", ((row, 1.0) for row in sorted(files)))
    columns: Mapping[str, Iterable[float | None]] = {
        "plimsoll_rule_group_rules": (g.rules for g in listed),
        "plimsoll_rule_group_interval_seconds": (g.interval for g in listed),
        "plimsoll_rule_group_last_duration_seconds": (g.duration for g in listed),
        "plimsoll_rule_group_last_evaluation_timestamp_seconds": (g.timestamp for g in listed),
        "plimsoll_rule_group_iterations_missed_total": (g.missed for g in listed),
        "plimsoll_rule_group_series": (g.series for g in listed),
        "plimsoll_rule_group_samples": (g.samples for g in listed),
        "plimsoll_rule_group_memory_bytes": (g.bytes for g in listed),
    }
    for name, values in columns.items():
        pairs = zip(listed, values, strict=True)
        yield METRICS.family(name, (((g.group,), float(v)) for g, v in pairs if v is not None))
