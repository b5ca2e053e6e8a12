"""Tracks which metrics a source has for which nodes, and describes changes in as few log lines as possible."""

from collections.abc import Collection
from typing import NamedTuple

_NAMED = 5
"""Metrics or nodes named in a line; the others are counted."""


class Line(NamedTuple):
    """One log line. `bad`: it is a warning."""

    text: str
    bad: bool


class _State(NamedTuple):
    """State of a metric: the nodes without it (None: the poll failed), and the error, if any."""

    missing: frozenset[str] | None
    fault: str


class Coverage:
    """The current state of each metric, and the state last logged."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._states: dict[str, _State] = {}
        self._logged: dict[str, _State] = {}
        self.changed = False
        """Whether there may be changes to log."""

    @property
    def failing(self) -> int:
        """The number of metrics whose poll fails."""
        return sum(state.missing is None for state in self._states.values())

    def note(self, metric: str, missing: frozenset[str] | None, fault: str) -> None:
        """Record the state of a metric."""
        state = _State(missing, fault)
        if self._states.get(metric) != state:
            self._states[metric] = state
            self.changed = True

    def keep(self, metrics: Collection[str]) -> None:
        """Drop all other metrics."""
        for states in (self._states, self._logged):
            for metric in states.keys() - set(metrics):
                del states[metric]

    def changes(self, nodes: int) -> list[Line]:
        """Return a line for each changed state; metrics with equal states share one."""
        by_state: dict[_State, list[str]] = {}
        for metric, state in self._states.items():
            if self._logged.get(metric) != state:
                by_state.setdefault(state, []).append(metric)
        self._logged = dict(self._states)
        self.changed = False
        return [self._line(state, sorted(metrics), nodes) for state, metrics in by_state.items()]

    def _line(self, state: _State, metrics: list[str], nodes: int) -> Line:
        names = _some(metrics)
        if state.missing is None:
            return Line(f"{self._source} has no answer for {names}: {state.fault}", bad=True)
        text = f"{self._source} has {names} for {nodes - len(state.missing)} of {nodes} nodes"
        if state.missing:
            text += f", not for {_some(sorted(state.missing))}"
        if state.fault:
            text += f"; {state.fault}"
        return Line(text, bad=bool(state.fault) or len(state.missing) == nodes > 0)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
