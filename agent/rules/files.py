"""Rule files on disk (`--rules.file`): found by globs, reloaded when they change, kept when they cannot be read; their errors.

Files are polled, as everywhere in the agent. A changed file is loaded when a second poll finds it unchanged: a file written
in place is empty for a moment, and the samples of a rule that disappears are lost. A file that cannot be read or is not a
rule file keeps its last good rules.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.rules.groups import file as groups
from agent.rules.groups.file import Context, RuleError, RuleFile, RuleFileError
from agent.rules.groups.ranges import ShortRange
from agent.rules.promql.budget import Budget
from collectors.interface.refusal import CollectorConfigError
from collectors.shared import steadyfile
from collectors.shared.steadyfile import FileStamp
from plimsoll import logs, strictyaml
from wire.failing_rules import FailingRule

log = logs.get(__name__)

LARGEST = 256 << 10
"""Maximum size of a file in bytes: expressions take thousands of times the memory of their text, and seconds to parse."""


@dataclass(frozen=True, slots=True)
class FileError:
    """Why a file is not used: a word for the metric, a sentence for the log."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class _File:
    """State of a file: its stamp when it was read, and its last good rules."""

    mark: FileStamp | None = None
    rules: RuleFile | None = None
    error: FileError | None = None


class RuleFileReader:
    """The files that match some globs. One thread at a time."""

    def __init__(self, patterns: Sequence[str], *, budget: Budget | None = None) -> None:
        """`budget`: its cancellation ends `look`."""
        self._patterns = tuple(patterns)
        self._budget = budget or Budget()
        self._files: dict[str, _File] = {}
        self._seen: Mapping[str, FileStamp | None] | None = None
        self._empty: frozenset[str] = frozenset()
        self._merged: RuleFile | None = None

    @property
    def errors(self) -> Mapping[str, FileError]:
        """Current errors by path."""
        return {path: file.error for path, file in self._files.items() if file.error is not None}

    def look(self) -> RuleFile | None:
        """Return the rules of all files, or None if nothing changed since the last call."""
        stamps = self._list()
        before, self._seen = self._seen, stamps
        known = {path: file.mark for path, file in self._files.items()}
        if before is not None and (stamps != before or stamps == known):
            return None
        self._files = {path: self._read(path, mark) for path, mark in stamps.items()}
        files = {path: file.rules for path, file in self._files.items() if file.rules is not None}
        merged = groups.merged_files(files)
        if merged == self._merged:
            return None
        self._merged = merged
        return merged

    def _read(self, path: str, mark: FileStamp | None) -> _File:
        before = self._files.get(path, _File())
        if mark is not None and mark == before.mark:
            return before
        try:
            text, mark = _text(path)
            context = Context(strictyaml.Finder(text).where, self._budget.check_cancelled)
            now = _File(mark, groups.read(strictyaml.load(text), context))
            log.info("rules read", file=path, rules=sum(len(g.rules) for g in _groups(now)))
        except CollectorConfigError as error:
            # Stamp not kept: a file that is unreadable now may be readable the next time.
            now = _File(None, before.rules, FileError(error.reason, str(error)))
        except (strictyaml.MalformedError, RuleFileError) as error:
            now = _File(mark, before.rules, FileError("syntax", str(error)))
        if now.error is not None and now.error != before.error:
            held = "keeping its previous rules" if before.rules is not None else "none"
            log.error("rule file cannot be used", file=path, reason=now.error.text, rules=held)
        return now

    def _list(self) -> dict[str, FileStamp | None]:
        """Return each file's stamp, following symbolic links as in a ConfigMap; None for a missing file."""
        stamps: dict[str, FileStamp | None] = {}
        empty: set[str] = set()
        for pattern in self._patterns:
            paths = list(_matches(pattern))
            if not paths:
                empty.add(pattern)
            stamps.update((path, _stamp(path)) for path in paths)
        for pattern in sorted(empty - self._empty):
            log.warning("no rule file matches", pattern=pattern)
        self._empty = frozenset(empty)
        return stamps


def _groups(file: _File) -> Sequence[groups.Group]:
    return file.rules.groups if file.rules is not None else ()


def _text(path: str) -> tuple[str, FileStamp]:
    mark, content = steadyfile.read(path, limit=LARGEST)
    try:
        return content.decode(), mark
    except UnicodeDecodeError as error:
        raise CollectorConfigError("encoding", "is not UTF-8") from error


def _stamp(path: str) -> FileStamp | None:
    try:
        return steadyfile.stamp(os.stat(path))  # noqa: PTH116 (as often as each second)
    except OSError:
        return None


def _matches(pattern: str) -> Iterator[str]:
    """Yield the paths that match a glob; text without wildcards is a path that must exist."""
    if not glob.has_magic(pattern):
        yield pattern
        return
    in_python = pattern.replace("[^", "[!")  # Go's syntax for it
    yield from sorted(glob.glob(in_python))  # noqa: PTH207 (patterns may be absolute)


class ErrorLog:
    """Logs when errors of rules begin and end, each once. Any thread may call its methods."""

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

    def short(self, ranges: Iterable[ShortRange]) -> None:
        """Log rules whose ranges hold fewer than two samples."""
        for group, rule, text in ranges:
            log.warning("range is short", group=group, rule=rule, reason=text)

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
    """When each failure of a rule or rule file began. One thread updates it; any thread reads it."""

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
