"""Since when rules and rule files fail."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.rules.files import FileError
from agent.rules.groups.file import RuleError
from wire.failing_rules import FailingRule


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
