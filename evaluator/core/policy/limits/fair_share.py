"""Divides a limit fairly: by namespace first, then by policy, so that many policies get no more than few.

The unit is a metric or a rule. The least served namespace chooses next, and in it the least served policy (max-min
fairness). The result depends on the claims alone, so all replicas get the same.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from evaluator.core.model.names import PolicyKey

T = TypeVar("T")

_NAMED = 3
"""Namespaces that a message names; the others are counted."""


@dataclass(slots=True)
class Share:
    """What is left of a limit, and how many units each namespace uses; `quota`: units of one namespace at most."""

    free: int
    quota: int | None = None
    used: Counter[str] = field(default_factory=Counter)
    full: set[str] = field(default_factory=set)
    """Namespaces that lost something to their quota."""

    def take(self, namespace: str, amount: int) -> bool:
        """Take units for a namespace; return whether that many are left for it."""
        if self.quota is not None and self.used[namespace] + amount > self.quota:
            self.full.add(namespace)
            return False
        if amount > self.free:
            return False
        self.free -= amount
        self.used[namespace] += amount
        return True

    def users(self) -> str:
        """Return which namespaces use most, such as `shop 12, ops 3`."""
        ordered = sorted(self.used.items(), key=lambda item: (-item[1], item[0]))
        named = ", ".join(f"{namespace} {amount}" for namespace, amount in ordered[:_NAMED])
        more = len(ordered) - _NAMED
        others = sum(amount for _, amount in ordered[_NAMED:])
        return f"{named} and {more} more namespaces {others}" if more > 0 else named


def divide(
    claims: Mapping[PolicyKey, Sequence[T]], cost: Callable[[T], int], share: Share
) -> Iterator[tuple[PolicyKey, T]]:
    """Yield the claims that are granted, in each policy's own order; one that does not fit is skipped.

    `cost` returns the units of a claim, when it is the claim's turn: after all earlier grants were yielded.
    """
    policies: dict[str, list[tuple[int, int, PolicyKey, int]]] = {}
    for key, own in claims.items():
        if own:
            policies.setdefault(key.namespace, []).append((0, len(own), key, 0))
    for queue in policies.values():
        heapq.heapify(queue)
    namespaces = [(share.used[namespace], namespace) for namespace in policies]
    heapq.heapify(namespaces)
    while namespaces and share.free > 0:
        _, namespace = heapq.heappop(namespaces)
        queue = policies[namespace]
        used, size, key, position = heapq.heappop(queue)
        claim = claims[key][position]
        amount = cost(claim)
        if share.take(namespace, amount):
            used += amount
            yield key, claim
        if position + 1 < size:
            heapq.heappush(queue, (used, size, key, position + 1))
        if queue:
            heapq.heappush(namespaces, (share.used[namespace], namespace))
