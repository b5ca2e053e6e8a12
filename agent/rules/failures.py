"""Errors of rules and rule files: logged once when they begin and once when they end, and since when they last."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.rules.files import FileError
from agent.rules.groups.file import RuleError, RuleFile
from plimsoll import logs
from wire.failing_rules import FailingRule

log = logs.get(__name__)


class ErrorLog:
    """Remembers which rules fail. Any thread may call its methods."""

    def __init__(self) -> None:
        self._failing: frozenset[tuple[str, str, str]] = frozenset()
        self._overridden: set[str] = set()

    def read(self, rule_file: RuleFile) -> None:
        """Log what was read from rule files, for the first time or again."""
        for error in rule_file.errors:
            _say("rule skipped", error)
        for note in rule_file.notes:
            log.info("part of a rule file is ignored or changed", note=note)
        rules = sum(len(group.rules) for group in rule_file.groups)
        log.info(
            "rules loaded",
            groups=len(rule_file.groups),
            rules=rules,
            left_out=len(rule_file.errors),
        )

    def failing(self, errors: Iterable[RuleError]) -> None:
        """Log changes of the set of failing rules."""
        before = self._failing
        failing = {error[:3]: error for error in sorted(errors)}
        self._failing = frozenset(failing)
        for key, error in failing.items():
            if key not in before:
                _say("rule fails", error)
        for group, rule, reason in sorted(before - self._failing):
            log.info("rule works again", group=group, rule=rule, kind=reason)

    def overridden(self, metrics: Iterable[str]) -> None:
        """Log recorded metrics that are also collected."""
        for metric in metrics:
            if metric not in self._overridden:
                self._overridden.add(metric)
                log.warning(
                    "a collector exports the metric of a rule; keeping the collector's",
                    metric=metric,
                )


def _say(event: str, error: RuleError) -> None:
    log.error(event, group=error.group, rule=error.rule, kind=error.reason, reason=error.text)


class FailureTimes:
    """When each failure began. One thread updates it; any thread reads it."""

    def __init__(self) -> None:
        self._since: Mapping[FailingRule, int] = {}

    def update(self, errors: Iterable[RuleError], files: Mapping[str, FileError], now: int) -> None:
        """Replace the failures. `files`: errors by path, of which only the last part is used; `now`: time in ms."""
        failing = {FailingRule("", *error) for error in errors}
        failing |= {
            FailingRule(Path(path).name, "", "", error.reason, error.text)
            for path, error in files.items()
        }
        if failing != self._since.keys():
            before = {rule.identity: since for rule, since in self._since.items()}
            self._since = {rule: before.get(rule.identity, now) for rule in sorted(failing)}

    def at(self, now: int) -> Mapping[FailingRule, float]:
        """Return the failures in order, with the seconds since they began."""
        return {rule: (now - since) / 1000 for rule, since in self._since.items()}
