"""Log lines about label conflicts: one per label and value for all nodes, at a bounded rate."""

import time
from collections.abc import Callable, Iterable

from structlog.stdlib import BoundLogger

from evaluator.core.model.node_labels import LabelConflict
from plimsoll.logs.ratelimited import RateLimitedLogger

_NAMED = 10
"""Nodes named in a line; the others are counted."""
_RATE, _BURST = 0.2, 20
"""Lines per second on average, and at once. A policy may be toggled every second; its status has the current conflicts."""


class ConflictLog:
    """Collects conflicts by label and value with `add()`; `write()` logs one warning for each."""

    def __init__(self, logger: BoundLogger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limited = RateLimitedLogger(logger, rate=_RATE, burst=_BURST, clock=clock)
        self._nodes: dict[tuple[str, str], list[LabelConflict]] = {}

    def add(self, conflicts: Iterable[LabelConflict]) -> None:
        """Collect conflicts that began."""
        for conflict in conflicts:
            self._nodes.setdefault((conflict.key, conflict.value), []).append(conflict)

    def write(self) -> None:
        """Log the conflicts added since the last call."""
        for (key, value), conflicts in self._nodes.items():
            self._limited.log(
                "label not set: another field manager owns it",
                label=key,
                desired=value,
                nodes=len(conflicts),
                some=",".join(conflict.node for conflict in conflicts[:_NAMED]),
                found=conflicts[0].theirs,
            )
        self._nodes.clear()
