"""Which metrics a source has for which nodes, and which it has not: what is new of that, in as few sentences as it takes."""

from collections.abc import Collection
from typing import NamedTuple

_NAMED = 5
"""How many metrics or nodes a sentence names before it only counts them."""


class Line(NamedTuple):
    """One sentence for the log. `bad`: somebody should look."""

    text: str
    bad: bool


class _State(NamedTuple):
    """Of one metric: the nodes of the cluster that lack it (None: there was no answer), and what was wrong, if anything."""

    lacking: frozenset[str] | None
    fault: str


class Coverage:
    """The last word on each metric, and what of it was told."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._states: dict[str, _State] = {}
        self._told: dict[str, _State] = {}
        self.new = False
        """Whether there may be something to tell."""

    @property
    def failing(self) -> int:
        """How many metrics the source has no answer for."""
        return sum(state.lacking is None for state in self._states.values())

    def note(self, metric: str, lacking: frozenset[str] | None, fault: str) -> None:
        """This is how it stands with a metric now."""
        state = _State(lacking, fault)
        if self._states.get(metric) != state:
            self._states[metric] = state
            self.new = True

    def keep(self, metrics: Collection[str]) -> None:
        """Forget all other metrics."""
        for states in (self._states, self._told):
            for metric in states.keys() - set(metrics):
                del states[metric]

    def tell(self, nodes: int) -> list[Line]:
        """What differs from what was told before, one sentence for all metrics it is the same with."""
        news: dict[_State, list[str]] = {}
        for metric, state in self._states.items():
            if self._told.get(metric) != state:
                news.setdefault(state, []).append(metric)
        self._told = dict(self._states)
        self.new = False
        return [self._line(state, sorted(metrics), nodes) for state, metrics in news.items()]

    def _line(self, state: _State, metrics: list[str], nodes: int) -> Line:
        names = _some(metrics)
        if state.lacking is None:
            return Line(f"{self._source} has no answer for {names}: {state.fault}", bad=True)
        text = f"{self._source} has {names} for {nodes - len(state.lacking)} of {nodes} nodes"
        if state.lacking:
            text += f", not for {_some(sorted(state.lacking))}"
        if state.fault:
            text += f"; {state.fault}"
        return Line(text, bad=bool(state.fault) or len(state.lacking) == nodes > 0)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
