"""What `check` prints: findings, as text or JSON, and policies in sentences."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import (
    LABEL,
    VIOLATING,
    Operator,
    Policy,
    Rule,
    Strategy,
    WhenMissing,
    formatted,
)
from evaluator.tools.check.manifests import KIND, SCHEDULER
from plimsoll.durations import format_duration
from plimsoll.text import counted, one_line

_COMPARED = {
    Operator.LESS_THAN: "below",
    Operator.GREATER_THAN: "above",
    Operator.EQUALS: "exactly",
}


@dataclass(slots=True)
class Findings:
    """Findings in one object, or in a file as a whole, which has no kind."""

    source: str
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    meanings: list[str] = field(default_factory=list)
    kind: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def is_policy(self) -> bool:
        """Whether the object is a policy."""
        return self.kind == KIND

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        yield one_line(self._title)
        yield from (f"  {line}" for line in self.meanings)
        yield from (f"  error: {one_line(line)}" for line in self.errors)
        yield from (f"  warning: {one_line(line)}" for line in self.warnings)

    @property
    def _title(self) -> str:
        if not self.kind:
            return self.source
        kind = "policy" if self.is_policy else self.kind
        if self.kind == SCHEDULER and not self.name:
            return f"{self.source}: {kind}"
        if not self.name:
            return f"{self.source}: a {kind} without a name"
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.source}: {kind} {where}{self.name}"


def as_text(findings: Sequence[Findings]) -> str:
    """Return the report for people."""
    lines = [line for finding in findings for line in finding.lines()]
    totals = _totals(findings)
    parts = [counted(totals["policies"], "policy", "policies")]
    if totals["workloads"]:
        parts.append(counted(totals["workloads"], "workload"))
    parts += [counted(totals["errors"], "error"), counted(totals["warnings"], "warning")]
    return "".join(f"{line}\n" for line in [*lines, ", ".join(parts)])


def as_json(findings: Sequence[Findings]) -> str:
    """Return the report as a JSON document."""
    return (
        json.dumps(
            {**_totals(findings), "findings": [asdict(finding) for finding in findings]}, indent=2
        )
        + "\n"
    )


def _totals(findings: Iterable[Findings]) -> dict[str, int]:
    findings = list(findings)
    return {
        "policies": sum(finding.is_policy for finding in findings),
        "workloads": sum(finding.kind not in {"", KIND, SCHEDULER} for finding in findings),
        "errors": sum(len(finding.errors) for finding in findings),
        "warnings": sum(len(finding.warnings) for finding in findings),
    }


def describe(policy: Policy) -> Iterator[str]:
    """Yield a line for each strategy of a policy, and an indented line for each rule."""
    if policy.observed:
        yield f"only observed, by {policy.observed_by}: nothing of the following is enforced"
    for part in policy.actions.parts:
        yield from part.described(policy)
    for name, strategy in policy.strategies.items():
        yield f"{name}: {_where(name, strategy)}{_consequence(policy, name)}"
        for number, rule in enumerate(strategy.rules, start=1):
            yield f"  {number}. {sentence(name, rule)}"


def _consequence(policy: Policy, name: StrategyName) -> str:
    row, labels = name.row, LABEL in policy.actions.kinds
    if row.sets_labels and not labels:
        return "no labels: plimsoll.io/actions does not name label"
    if row.marks and labels:
        return f"the node is labelled {policy.key.name}={VIOLATING}, and {row.consequence}"
    return row.consequence


def _where(name: StrategyName, strategy: Strategy) -> str:
    if name.row.ranks:
        return ""
    if not strategy.rules:
        return "never (no rules), "
    if strategy.all_of and strategy.impossible:
        return "never (one of its rules is invalid), "
    if len(strategy.rules) == 1:
        return "where this rule matches, "
    return (
        f"where {'all of these rules match' if strategy.all_of else 'any of these rules matches'}, "
    )


def sentence(name: StrategyName, rule: Rule) -> str:
    """Return the meaning of one rule."""
    if name.row.ranks:
        return _ranked(rule, _subject(name, rule))
    text = f"Matches {_when(rule, _subject(name, rule))}."
    if rule.options.when_missing is WhenMissing.VIOLATE:
        text += " A missing reading counts as a match."
    if rule.labels:
        labels = " and ".join(f"{label.key}={label.value}" for label in rule.labels)
        text += f" Sets {labels}."
    return text


def _subject(name: StrategyName, rule: Rule) -> str:
    per_pod = rule.per_pod and name.row.per_pod and not rule.peers
    return f"{rule.metric} (for the pod being scheduled)" if per_pod else rule.metric


def _when(rule: Rule, subject: str) -> str:
    target = rule.written or formatted(rule.target)
    number = formatted(rule.target)
    value = target if target == number else f"{target} ({number})"
    compared = f"{_COMPARED[rule.operator]} {value}"
    clear = format_duration(rule.options.clear_after)
    if not rule.options.for_seconds:
        after = f", and {clear} longer" if rule.options.clear_after else ""
        return f"while {subject} is {compared}{after}"
    after = f", until {clear} after it no longer is" if rule.options.clear_after else ""
    return (
        f"once {subject} has been {compared} for {format_duration(rule.options.for_seconds)}{after}"
    )


def _ranked(rule: Rule, subject: str) -> str:
    orders = {
        Operator.LESS_THAN: f"Lower values of {subject} are better",
        Operator.GREATER_THAN: f"Higher values of {subject} are better",
        Operator.EQUALS: f"All nodes with a reading of {subject} rank equally",
    }
    return f"{orders[rule.operator]}; nodes without a reading are not ranked."
