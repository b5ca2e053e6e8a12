"""What the pages are made from."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.policy.actions.names import DOMAIN, own_prefixes
from evaluator.core.readings.failing_rules import FailingRuleIndex
from evaluator.features.gangs.core.explain import GangExplainer
from evaluator.features.node_actions.types import PolicyActions
from evaluator.features.pages.explain.policy_nodes import Since, never
from evaluator.features.scorers.pod_explainer import PodExplainer
from evaluator.features.status.enforcement import NO_EFFECTS, Effects

_NAMED = 10
"""Policies named in an error; others are counted."""

ReadPod = Callable[[str, str], Awaitable[Pod | None]]
"""Returns the pod of a namespace and name from the API server, or None. Raises UnreadablePodError."""


class UnreadablePodError(Exception):
    """The API server did not return a pod; the message says why."""


async def _no_pod(_namespace: str, _name: str) -> Pod | None:
    return None


@dataclass(frozen=True)
class PageSources:
    """The parts of the evaluator that pages show; pages change none of them.

    `clock` is that of the decision loop. `read_pod` reads pods that are not cached: those without a policy. `leader`:
    the name of the replica that leads, empty if none does. `agents`: connected agents; None if they are no source.
    """

    decider: DecisionLoop
    cluster: ClusterCache
    clock: Callable[[], float]
    effects: Effects = NO_EFFECTS
    read_pod: ReadPod = _no_pod
    pod_explainer: PodExplainer | None = None
    gang_explainer: GangExplainer | None = None
    since: Since = never
    is_leader: Callable[[], bool] = lambda: True
    leader: Callable[[], str] = str
    agents: Callable[[], int | None] = lambda: None
    readings_from: Sequence[str] = ()
    """The sources of readings, by name."""
    actions: Callable[[], Mapping[PolicyKey, PolicyActions]] = field(default=dict)
    failing_rules: FailingRuleIndex = field(default_factory=FailingRuleIndex)
    taint_prefixes: tuple[str, ...] = own_prefixes(DOMAIN)

    def waiting(self) -> dict[str, Any]:
        """Return what is missing before this replica is ready, as a field."""
        return {"waitingFor": list(self.decider.waiting_for)}

    def known(self, namespace: str) -> str:
        """Return the names of some policies of a namespace. Its pages name no other ones: see --opsAuthorize."""
        every = self.decider.latest.policies
        policies = [str(key) for key in every if key.namespace == namespace]
        more = f" and {len(policies) - _NAMED} more" if len(policies) > _NAMED else ""
        return (", ".join(policies[:_NAMED]) or "none") + more
