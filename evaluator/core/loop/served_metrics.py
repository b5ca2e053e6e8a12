"""The metrics that the custom metrics API serves: those that policies name, and those that match --serveMetrics."""

from collections.abc import Callable, Collection, Iterable, Sequence

from wire.patterns import EVERY, Patterns

_MOST_FOUND = 1000
"""Names of agents that are kept: thousands of agents may report different ones."""


class ServedMetrics:
    """Names of metrics. `patterns` may contain `*`; `conditions` returns the metrics of nodes' conditions.

    A pattern stands for the metrics that agents report to match it, and for node conditions.
    """

    def __init__(
        self,
        patterns: Sequence[str] = (),
        *,
        conditions: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._exact = frozenset(name for name in patterns if EVERY not in name)
        self.patterns = tuple(name for name in patterns if EVERY in name)
        """Those with `*`, for agents to match."""
        self._matching = Patterns(self.patterns)
        self._conditions = conditions
        self._found = frozenset[str]()
        self.names: tuple[str, ...] | None = None
        """The served metrics, sorted; the same object while they are the same. None before the first decision."""

    @property
    def wanted(self) -> frozenset[str]:
        """The metrics to request from sources beside those of policies."""
        if not self.patterns:
            return self._exact
        return self._exact.union(self._found, filter(self._matching.matches, self._conditions()))

    def found(self, names: Iterable[str]) -> bool:
        """Add names of an agent that match the patterns; returns whether one is new."""
        new = [name for name in names if name not in self._found and self._matching.matches(name)]
        del new[_MOST_FOUND - len(self._found) :]
        self._found = self._found.union(new)
        return bool(new)

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        """Set the names: the metrics of policies, and those that are wanted; those that are `left_out` have no readings."""
        names = tuple(sorted(self.wanted.union(*of_policies).difference(left_out)))
        if names != self.names:
            self.names = names
