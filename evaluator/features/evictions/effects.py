"""The pods that a policy would evict."""

from collections.abc import Iterator, Mapping
from typing import Any

from evaluator.core.cache.feasible_nodes import FeasibleNodes
from evaluator.core.cache.pods_by_policy import PodsByPolicy
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.report import Effect, Effects
from evaluator.features.evictions.plan import evictable
from plimsoll.text import counted

_NAMED = 5
"""Pods that a message names; the others are counted."""


class EvictionEffects(Effects):
    """The pods to evict from violating nodes, whatever the rate. `evicting`: whether --evict is set."""

    def __init__(
        self, running: PodsByPolicy, feasible_nodes: FeasibleNodes, *, evicting: bool
    ) -> None:
        self._running = running
        self._feasible_nodes = feasible_nodes
        self._evicting = evicting

    def catching_up(self, decisions: Decisions) -> Iterator[None]:
        """Bring the evictable pods of observed policies up to date, in steps."""
        for decision in decisions.policies.values():
            if decision.policy.observed:
                self._evicted(decision)
                yield
        yield from self._feasible_nodes.catching_up()

    def of(self, decision: Decision, _table: MetricTable) -> Iterator[Effect]:
        """Yield the effect of enforcing a policy now. --evictLimit is not applied."""
        pods = self._evicted(decision)
        flag = "" if self._evicting else " if --evict is set"
        yield Effect("podsEvicted", f"evict {_named(pods)}{flag}", pods)

    def facts(self) -> Mapping[str, Any]:
        """Return whether pods are evicted."""
        return {"evict": self._evicting}

    def _evicted(self, decision: Decision) -> list[str]:
        pods = self._running.of(decision.policy.key)
        return sorted(map(str, evictable(decision, pods, self._feasible_nodes)))


def _named(pods: list[str]) -> str:
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    return f"{counted(len(pods), 'pod')} ({', '.join(pods[:_NAMED])}{more})"
