"""One reading of a node as pages show it: value, age and state."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from evaluator.core.readings.column import NEVER, Column


class ShownReading(NamedTuple):
    """One node's reading."""

    value: float
    samples: int
    at: float
    fresh: bool
    unread: bool
    unreported: bool
    usable: bool
    source: str = ""
    """Its source, if there are several."""

    def as_json(self, now: float) -> dict[str, Any]:
        """Return the reading as JSON; NaN and infinities become strings."""
        value = self.value if math.isfinite(self.value) else str(self.value)
        known = self.at != NEVER
        return {
            "value": value if self.samples == 1 else None,
            "ageSeconds": round(now - self.at, 3) if known else None,
            "state": self.state,
            **({"source": self.source} if self.source and known else {}),
        }

    @property
    def state(self) -> str:
        """Whether the reading is usable, in words."""
        if self.unreported:
            return "awaited: no first report yet"
        if self.unread:
            known = "the last reading still counts" if self.fresh else "nothing is known"
            return f"unread: its source cannot be read, {known}"
        if not self.fresh:
            never = self.at == NEVER
            return "missing: never reported" if never else "stale: too old to rely on"
        match self.samples:
            case 0:
                return "absent: the node does not have this metric"
            case 1:
                return "fresh" if self.usable else "fresh, but not a number"
            case _:
                return f"ambiguous: {self.samples} series, no single value (`problems` says what to do)"


def readings_of(column: Column) -> Iterator[ShownReading]:
    """Yield the readings of a column, node by node."""
    parts = (
        *(column.values, column.samples, column.at),
        *(column.fresh, column.unread, column.unreported, column.usable),
    )
    lists = [part.tolist() for part in parts]
    if (origin := column.origin) is not None:
        lists.append([origin.names[position] for position in origin.numbers.tolist()])
    return map(ShownReading, *lists)
