"""How many pods fit on which nodes, now and if the nodes were empty, as plain data. No I/O."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.core.model.feasibility import EXCLUDED_BY
from evaluator.core.model.resources import RESOURCES, ExtendedResources, ResourceVector
from evaluator.features.gangs.core.membership import PodShape
from evaluator.features.gangs.core.packing import Capacity, Demand, Packing

_LOOKED_AT = 10
"""The largest number of shapes in an explanation; the most frequent ones are kept."""


@dataclass(frozen=True)
class Fit:
    """Unplaced pods by shape, and the capacity for them: now, and on empty nodes."""

    capacity: Capacity
    free: Packing
    empty: Packing
    demand_by_shape: Sequence[tuple[PodShape, int]]

    @classmethod
    def of(cls, capacity: Capacity, demand: Demand, kept: Iterable[Demand] = ()) -> "Fit":
        """Return the fit of some pods beside those with reservations (`kept`)."""
        free = Packing(capacity)
        for others in kept:
            free.take(others)
        demand_by_shape = Counter(demand).most_common(_LOOKED_AT)
        return cls(capacity, free, Packing(capacity, empty=True), demand_by_shape)

    def shapes(self) -> list[dict[str, Any]]:
        """Return for each shape its requests, the number of pods, and how many would fit if it were alone."""
        return [
            {
                "pods": count,
                "requests": requested_amounts(shape.requests, shape.others),
                "policy": str(shape.policy) if shape.policy else None,
                "nodes": int(self.capacity.allowed(shape.where, shape.policy).sum()),
                "fitNow": int(self.free.capacity(shape).sum()),
                "fitWereNodesEmpty": int(self.empty.capacity(shape).sum()),
            }
            for shape, count in self.demand_by_shape
        ]

    def nodes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield for each node the free amounts of the requested resources, and how many pods of each shape fit."""
        columns = [self._column(shape) for shape, _ in self.demand_by_shape]
        free = [(name, self._free(name)) for name in self._requested()]
        for position, name in enumerate(self.capacity.nodes if columns else ()):
            yield (
                name,
                {
                    "free": {resource: amounts[position] for resource, amounts in free},
                    "pods": [column(position) for column in columns],
                },
            )

    def _requested(self) -> Sequence[str]:
        named = (
            requested_amounts(shape.requests, shape.others) for shape, _ in self.demand_by_shape
        )
        return list(dict.fromkeys(name for names in named for name in names))

    def _free(self, resource: str) -> list[float | None]:
        """Return the free amount by node; None if unknown."""
        row = self.capacity.row_of.get(resource)
        if row is None:
            return [None] * len(self.capacity.nodes)
        return [
            None if math.isnan(amount) else amount for amount in self.capacity.free[row].tolist()
        ]

    def _column(self, shape: PodShape) -> Callable[[int], dict[str, Any]]:
        now, empty = self.free.capacity(shape).tolist(), self.empty.capacity(shape).tolist()
        could = self.capacity.allowed(shape.where, None).tolist()
        may = self.capacity.allowed(shape.where, shape.policy).tolist()

        def describe(position: int) -> dict[str, Any]:
            counts = {"fitNow": int(now[position]), "fitWereItEmpty": int(empty[position])}
            if may[position]:
                return counts
            return {**counts, "shutOutBy": "its policy" if could[position] else EXCLUDED_BY}

        return describe


def requested_amounts(requests: ResourceVector, others: ExtendedResources) -> dict[str, int]:
    """Return amounts by resource, in milli-CPU, bytes or units."""
    known = zip(map(str, RESOURCES), requests, strict=True)
    return {name: amount for name, amount in (*known, *others) if amount}
