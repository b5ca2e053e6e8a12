"""Problems of a node by their rules' matches: counts, conditions with a way back to healthy, events; and their state file.

A log has no line that says "repaired". A permanent problem therefore ends in one of four ways: the machine's own state says so
(where it can be read), a reboot, a quiet time, or a person's acknowledgement. The last two are always possible.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from collectors.shared.problems.matching import Match
from collectors.shared.problems.monitors import Monitor
from plimsoll import durations, logs, rfc3339
from plimsoll.text import one_line

LONGEST = 1000
"""Characters of a message."""
MOST_EVENTS = 50
"""Different events that are kept."""
_SETTLED = 10.0
"""Seconds without another line after which a healthy state of the machine ends a problem: the line precedes the state."""
log = logs.get(__name__)
_VERSION = 1
_LARGEST = 1 << 20


class Way(Enum):
    """What ends a permanent problem, beside an acknowledgement."""

    STATE = "state"
    REBOOT = "reboot"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a condition becomes healthy."""

    way: Way
    quiet: float = 0.0
    """Seconds without another line, for Way.QUIET."""


DEFAULTS: Mapping[str, Recovery] = {"ReadonlyFilesystem": Recovery(Way.STATE)}
"""By condition type; others end with a reboot. docs/node-problem-detector.md has the reasons."""
REBOOT = Recovery(Way.REBOOT)
STATES = frozenset({"ReadonlyFilesystem"})
"""Condition types whose state can be read."""


def parse_recovery(text: str) -> tuple[str, Recovery]:
    """Parse `TYPE=state`, `TYPE=reboot` or `TYPE=DURATION`. Raises ValueError."""
    kind, equals, way = text.partition("=")
    if not kind or not equals:
        raise ValueError(
            f"not TYPE=WAY: {text!r} (such as KernelDeadlock=reboot or KernelDeadlock=1h)"
        )
    if way == "reboot":
        return kind, REBOOT
    if way == "state":
        if kind not in STATES:
            raise ValueError(
                f"{kind}: its state cannot be read (only that of {', '.join(sorted(STATES))})"
            )
        return kind, Recovery(Way.STATE)
    return kind, Recovery(Way.QUIET, durations.duration(way))


@dataclass(slots=True)
class ConditionState:
    """A node condition now."""

    type: str
    active: bool
    reason: str
    message: str
    since: float
    """Unix seconds of the last transition; 0 if there was none since the boot."""
    seen: float = 0.0
    """Unix seconds of the last matching line."""


class Event(NamedTuple):
    """A temporary problem, or a permanent one that began."""

    source: str
    reason: str
    message: str
    at: float
    """Unix seconds of the last line."""
    times: int
    """Since the agent started."""


class ProblemTracker:
    """The problems of all monitors of a node since its boot."""

    def __init__(self, monitors: Iterable[Monitor], recovery: Mapping[str, Recovery]) -> None:
        self._recovery = {**DEFAULTS, **recovery}
        self.counts: dict[str, int] = {}
        """Reason → matches, of monitors that report metrics."""
        self.conditions: dict[str, ConditionState] = {}
        self.gauges: set[tuple[str, str]] = set()
        """Condition types and reasons that have a gauge."""
        self._healthy: dict[str, tuple[str, str]] = {}
        self.events: dict[tuple[str, str], Event] = {}
        """The latest event of each source and reason, the last one at the end."""
        self.changes = 0
        """Increases whenever something is worth reporting."""
        for monitor in monitors:
            self._add(monitor)

    def _add(self, monitor: Monitor) -> None:
        for condition in monitor.conditions:
            if condition.type not in self.conditions:
                healthy = condition.reason, one_line(condition.message, LONGEST)
                self._healthy[condition.type] = healthy
                self.conditions[condition.type] = ConditionState(condition.type, False, *healthy, since=0.0)  # fmt: skip
        for rule in monitor.rules:
            if monitor.metrics:
                self.counts.setdefault(rule.reason, 0)
                if rule.condition:
                    self.gauges.add((rule.condition, rule.reason))

    def matched(self, monitor: Monitor, match: Match, at: float) -> None:
        """Apply a rule that matched lines of a time in Unix seconds."""
        rule, message = match.rule, one_line(match.message, LONGEST)
        if rule.condition:
            state = self.conditions[rule.condition]
            state.seen = max(state.seen, at)
            if state.active and state.reason == rule.reason:
                return
            state.active, state.reason, state.message, state.since = True, rule.reason, message, at
        if monitor.metrics:
            self.counts[rule.reason] = self.counts.get(rule.reason, 0) + 1
        self._append(monitor.source, rule.reason, message, at)
        self.changes += 1

    def _append(self, source: str, reason: str, message: str, at: float) -> None:
        """Count an event; beyond the limit of different ones, the oldest is dropped."""
        before = self.events.pop((source, reason), None)
        times = 1 if before is None else before.times + 1
        self.events[source, reason] = Event(source, reason, message, at, times)
        if len(self.events) > MOST_EVENTS:
            del self.events[next(iter(self.events))]

    def recover(self, now: float, states: Mapping[str, bool]) -> None:
        """End the problems that are over by now. `states`: whether the machine's own state has the problem; absent if unknown."""
        for state in self.conditions.values():
            if not state.active:
                continue
            recovery = self._recovery.get(state.type, REBOOT)
            quiet = now - state.seen
            healthy = states.get(state.type) is False and quiet >= _SETTLED
            if (healthy and recovery.way is Way.STATE) or (
                recovery.way is Way.QUIET and quiet >= recovery.quiet
            ):
                self._end(state, now)

    def acknowledge(self, kind: str, at: float, now: float) -> bool:
        """End a problem whose last line precedes an acknowledgement, of at most `now`. Returns whether it did."""
        state, by = self.conditions.get(kind), rfc3339.bounded(at, now)
        if by is None or state is None or not state.active or state.seen >= by + 1:  # whole seconds
            return False
        self._end(state, now)
        return True

    def _end(self, state: ConditionState, now: float) -> None:
        state.active, state.since = False, now
        state.reason, state.message = self._healthy[state.type]
        self.changes += 1

    def dump(self) -> dict[str, Any]:
        """Return what a restart of the agent must keep."""
        conditions = [asdict(state) for state in self.conditions.values() if state.since]
        return {"counts": self.counts, "conditions": conditions}

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Restore what `dump` returned, as far as the configurations still have it. Raises TypeError or ValueError."""
        for reason, count in dict(dumped["counts"]).items():
            if reason in self.counts:
                self.counts[reason] = int(count)
        for entry in dumped["conditions"]:
            state = ConditionState(**entry)
            if state.type in self.conditions and (state.active or state.since):
                healthy = self._healthy[state.type]
                if not state.active:
                    state.reason, state.message = healthy
                self.conditions[state.type] = state


def load_state(path: Path, boot_id: str) -> Mapping[str, Any]:
    """Return the saved positions in logs, counts and conditions; empty if there is none of this boot, or if it is damaged."""
    try:
        with path.open("rb") as file:
            state = json.loads(file.read(_LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        log.warning(
            "problems of before the restart are discarded", file=str(path), reason=str(error)
        )
        return {}
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        log.warning("problems of before the restart are discarded", file=str(path), reason="other version")  # fmt: skip
        return {}
    return state if state.get("boot_id") == boot_id else {}


def save_state(path: Path, boot_id: str, state: Mapping[str, Any]) -> None:
    """Replace the state file, which is valid within one boot. A failure is logged: the next save tries again."""
    text = json.dumps({"version": _VERSION, "boot_id": boot_id, **state})
    new = path.with_name(f"{path.name}.new")
    try:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()  # it may be a symbolic link
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w") as out:
            out.write(text)
        new.replace(path)
    except OSError as error:
        log.warning("problems are not saved", file=str(path), reason=error.strerror)
