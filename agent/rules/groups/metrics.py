"""Metrics about the agent's rules: failures with reasons, and the interval, duration and size of each group."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.rules.groups.file import RuleError
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family

REASONS: Mapping[str, str] = {
    "duplicate": "a rule before it records the same series, or the file has a group of its name already",
    "evaluation": "the expression cannot be computed from these samples, such as a match of many to many",
    "invalid": "a field that is unknown or missing, a name that no metric or label may have, ...",
    "limit": "the rule yields more series than the `limit` of its group",
    "memory": "samples or results would take more than --rules.max-memory; the group records nothing, or the rule for a minute",
    "parse": "the expression is no PromQL",
    "timeout": "the evaluation took longer than --rules.timeout, or its group five times that; the rule rests for a minute",
    "type": "the expression's types do not fit, such as a rate of an instant vector",
    "unsupported": "PromQL that is not evaluated here; the log says what",
}

METRICS = Table(
    Metric(
        "plimsoll_rule_error",
        "gauge",
        "1 for each rule that fails now, and the reason; without a rule's name, it is the whole group.",
        "",
        ("group", "rule", "reason"),
    ),
    Metric(
        "plimsoll_rule_file_error",
        "gauge",
        "1 for each rule file that cannot be used as it is now, and the reason; the rules that it had go on.",
        "",
        ("file", "reason"),
    ),
    Metric("plimsoll_rule_group_rules", "gauge", "The rules that are evaluated.", "", ("group",)),
    Metric(
        "plimsoll_rule_group_interval_seconds",
        "gauge",
        "How often the group is evaluated now.",
        "",
        ("group",),
        "seconds",
    ),
    Metric(
        "plimsoll_rule_group_last_duration_seconds",
        "gauge",
        "How long the last evaluation took, without the reading of the sources.",
        "",
        ("group",),
        "seconds",
    ),
    Metric(
        "plimsoll_rule_group_last_evaluation_timestamp_seconds",
        "gauge",
        "When the group was evaluated last, in Unix time.",
        "",
        ("group",),
        "seconds",
    ),
    Metric(
        "plimsoll_rule_group_iterations_missed_total",
        "counter",
        "Evaluations that were left out because the one before, or a source, took too long.",
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
