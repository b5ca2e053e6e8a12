"""How policies are stopped: they may change nothing for a while, or are only observed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from evaluator.core.model.names import PolicyKey


class Stop(NamedTuple):
    """How a policy is stopped; at all, with one of the fields.

    `frozen`: its evictions and all changes of nodes for it wait. `observed_by`: why it is only observed meanwhile.
    """

    frozen: bool = False
    observed_by: str = ""


RUNS = Stop()
"""Not stopped."""


@dataclass(frozen=True)
class Stops:
    """How policies are stopped, by key. `others`: the rest, with policies that come later, and what no policy sets."""

    others: Stop = RUNS
    named: Mapping[PolicyKey, Stop] = field(default_factory=dict)

    def stop(self, policy: PolicyKey) -> Stop:
        """Return how a policy is stopped."""
        return self.named.get(policy, self.others)

    def permit(self, policy: PolicyKey, _node: str = "") -> bool:
        """Return whether evictions and changes of nodes for a policy are permitted."""
        return not self.stop(policy).frozen

    @property
    def freeze(self) -> bool:
        """Whether anything is frozen."""
        return self.others.frozen or any(stop.frozen for stop in self.named.values())


NO_STOPS = Stops()
StopsNow = Callable[[], Stops]


def no_stops() -> Stops:
    """Return that nothing is stopped."""
    return NO_STOPS
