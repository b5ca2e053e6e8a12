"""Reports of agents as lines of a recording."""

import math
import time
from collections.abc import Callable

from plimsoll.recording import text
from wire.codec import Delta


class Recorder:
    """Collects one line per metric that a report confirms, changed or not, until they are taken.

    A metric that the node does not have, or of which it has several series, is NaN: missing at once, as for the live
    evaluator. A metric whose source cannot be read has no line, so that it becomes stale.
    """

    version = 0
    """Constant: nothing is decided here."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._readings: dict[str, dict[str, str]] = {}
        """Node → metric → value as text."""
        self._lines: list[str] = []
        self.samples = 0
        """Lines so far."""

    @property
    def nodes(self) -> int:
        """The number of nodes that have reported."""
        return len(self._readings)

    def knows(self, node: str) -> bool:
        """Whether deltas of a node can be applied."""
        return node in self._readings

    def report(self, node: str, report: Delta, _at: float) -> None:
        """Add the samples of a report."""
        readings = self._readings.setdefault(node, {})
        readings.update(dict.fromkeys([*report.absent, *report.several], "NaN"))
        readings.update((name, _number(value)) for name, value in report.values.items())
        unread = set(report.unread)
        stamp = text.timestamp(self._clock())
        lines = [
            f"{text.head(name, node)} {value} {stamp}\n"
            for name, value in readings.items()
            if name not in unread
        ]
        self._lines += lines
        self.samples += len(lines)

    def take(self) -> bytes:
        """Return the lines since the last call."""
        lines, self._lines = self._lines, []
        return "".join(lines).encode()


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
