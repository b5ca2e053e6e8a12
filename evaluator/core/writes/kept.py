"""What nodes keep while policies are frozen."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.stops import Stops, StopsNow
from evaluator.core.policy.types import Policy


class KeptOnNodes:
    """What nodes keep while policies are frozen: everything of ours but what only policies set that are not frozen.

    So what a policy set before it was edited or deleted stays too, until nothing is frozen.
    """

    def __init__(
        self,
        stops: StopsNow,
        decider: DecisionLoop,
        keys: Callable[[Policy], Iterable[str]],
    ) -> None:
        """`keys` returns what a policy may set on nodes, such as the keys of its labels."""
        self._stops = stops
        self._decider = decider
        self._keys = keys
        self._computed: tuple[Stops, Decisions, frozenset[str]] | None = None

    def desired(
        self, wanted: Mapping[str, str], own: Mapping[str, str]
    ) -> Mapping[str, str] | None:
        """Return what a node should have; None if it stays as it is. `wanted`: without a stop; `own`: what it has of ours."""
        stops = self._stops()
        if not stops.freeze:
            return wanted
        free = self._free(stops)
        kept = {key: value for key, value in own.items() if key not in free}
        found = {key: value for key, value in wanted.items() if key in free} | kept
        return None if found == own else found

    def _free(self, stops: Stops) -> frozenset[str]:
        decisions = self._decider.latest
        if (known := self._computed) is None or known[0] is not stops or known[1] is not decisions:
            known = self._computed = stops, decisions, self._set_by_free(stops, decisions)
        return known[2]

    def _set_by_free(self, stops: Stops, decisions: Decisions) -> frozenset[str]:
        """Return what only policies set that are not frozen."""
        by_frozen = self._set_by(decisions, stops, frozen=True)
        return frozenset(self._set_by(decisions, stops, frozen=False)) - frozenset(by_frozen)

    def _set_by(self, decisions: Decisions, stops: Stops, *, frozen: bool) -> Iterator[str]:
        for key, decision in decisions.policies.items():
            if stops.stop(key).frozen is frozen:
                yield from self._keys(decision.policy)
