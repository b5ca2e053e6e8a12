"""Metrics that sources are asked for beside those of policies."""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol


class ExtraMetrics(Protocol):
    """Names of metrics, exact or by patterns that agents match."""

    @property
    def patterns(self) -> Sequence[str]:
        """Patterns with `*`, for agents to match."""
        ...

    @property
    def wanted(self) -> frozenset[str]:
        """The metrics to request now."""
        ...

    def found(self, names: Iterable[str]) -> bool:
        """Add names of an agent that match the patterns; return whether one is new."""
        ...

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        """Take over the metrics of policies after a decision; those that are `left_out` have no readings."""
        ...


class _NoExtraMetrics:
    patterns: Sequence[str] = ()
    wanted = frozenset[str]()

    def found(self, names: Iterable[str]) -> bool:
        return False

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        pass


NO_EXTRA_METRICS: ExtraMetrics = _NoExtraMetrics()
"""Only the metrics of policies."""
