"""What the pages are made from, such as the times since when nodes violate a strategy."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.arrays import Floats
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.node_index import Mask, NodeIndex, Positions, Reindex
from evaluator.core.model.pod import Pod
from evaluator.core.page_fields import WrittenFields
from evaluator.core.pages.part import PagePart, PagePast, PodJudge
from evaluator.core.pages.section import Section
from evaluator.core.placement.placements import Placements
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.problems import with_similar
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy_status import Effects, PolicyPart, no_parts
from evaluator.core.readings.reported import FailingRuleIndex, NodeCauses
from evaluator.core.signals import Decided
from evaluator.core.sources.agents.port_process import PortRestarts
from evaluator.features.pages.explain.states import Since, never


class _Began(NamedTuple):
    """The violating nodes of one strategy, and since when (seconds)."""

    violated: Mask
    positions: Positions
    at: Floats


class ViolationTimes:
    """Since when each node violates a strategy (seconds, the clock of the decisions).

    A violation that existed in the first decision of a policy counts from that decision.
    """

    def __init__(self) -> None:
        self._nodes = NodeIndex()
        self._uids: dict[PolicyKey, str] = {}
        self._began: dict[tuple[PolicyKey, StrategyName], _Began] = {}

    def since(self, key: PolicyKey, name: StrategyName, node: str) -> float | None:
        """Return since when a node violates a strategy; None if it does not."""
        began, position = self._began.get((key, name)), self._nodes.position.get(node)
        if began is None or position is None or not began.violated[position]:
            return None
        return float(began.at[np.searchsorted(began.positions, position)])

    def update(self, decided: Decided) -> Iterator[None]:
        """Take over new decisions, one changed policy per step."""
        decisions, now = decided.decisions, decided.at
        reindex = Reindex(self._nodes, decisions.table.nodes)
        began: dict[tuple[PolicyKey, StrategyName], _Began] = {}
        for key, decision in decisions.policies.items():
            same, changed = self._uids.get(key) == decision.policy.uid, False
            for name, violated in _violated(decision):
                before = self._began.get((key, name)) if same else None
                found = began[key, name] = _began(before, violated, reindex, now)
                changed |= found is not before
            if changed:
                yield
        self._nodes = decisions.table.nodes
        self._uids = {key: decision.policy.uid for key, decision in decisions.policies.items()}
        self._began = began


def _violated(decision: Decision) -> Iterator[tuple[StrategyName, Mask]]:
    for name, state in decision.states.items():
        yield name, state.found.violated


def _began(before: _Began | None, violated: Mask, reindex: Reindex, now: float) -> _Began:
    if before is not None and reindex.is_identity:
        if before.violated is violated:
            return before
        if np.array_equal(before.violated, violated):
            return before._replace(violated=violated)
    positions = violated.nonzero()[0]
    if before is None or not before.positions.size:
        return _Began(violated, positions, np.full(len(positions), now))
    times = np.full(len(before.violated), np.nan)
    times[before.positions] = before.at
    at = reindex.values(times)[positions]
    return _Began(violated, positions, np.where(np.isnan(at), now, at))


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
    effects: Callable[[], Iterable[Effects]] = tuple
    """What knows the effects of enforcing a policy."""
    policy_parts: Callable[[Decision], Iterable[PolicyPart]] = no_parts
    """Returns what features add to the status of a policy."""
    parts: Callable[[], Sequence[PagePart]] = tuple
    """What features show."""
    read_pod: ReadPod = _no_pod
    since: Since = never
    is_leader: Callable[[], bool] = lambda: True
    leader: Callable[[], str] = str
    agents: Callable[[], int | None] = lambda: None
    port_restarts: PortRestarts | None = None
    """Of the agents' port; None if agents are no source."""
    readings_from: Sequence[str] = ()
    """The sources of readings, by name."""
    failing_rules: FailingRuleIndex = field(default_factory=FailingRuleIndex)
    causes: NodeCauses = field(default_factory=NodeCauses)
    placements: Placements | None = None
    """The pods placed since the readings."""

    def waiting(self) -> list[str]:
        """Return what is missing before this replica is ready."""
        return list(self.decider.waiting_for)

    def notices(self, namespace: str) -> list[str]:
        """Return the sentences that every page of a namespace shows, or of all if it is empty."""
        return [sentence for part in self.parts() for sentence in part.notices(namespace)]

    @property
    def judge(self) -> PodJudge | None:
        """What judges nodes for pods beside the policies; None if nothing does."""
        return next((part.judge for part in self.parts() if part.judge is not None), None)

    @property
    def past(self) -> PagePast | None:
        """What knows the past; None if nothing does."""
        return next((part.past for part in self.parts() if part.past is not None), None)

    @property
    def sections(self) -> Sequence[Section]:
        """Pages of features."""
        return [part.section for part in self.parts() if part.section is not None]

    def written_for(self, node: Node | None, decision: Decision) -> list[WrittenFields | None]:
        """Return what features wrote to a node because of one policy."""
        return [part.written_for(node, decision) for part in self.parts()]

    def found_problems(self, decision: Decision) -> list[str]:
        """Return the problems of a policy's decision; metrics that no node has with similar ones."""
        return with_similar(decision.problems, decision.not_found, self.decider.similar.to)

    def problems(self, decision: Decision) -> list[str]:
        """Return the problems of a policy's decision, and those that features add."""
        parts = self.policy_parts(decision)
        added = (problem for part in parts for problem in (*part.problems, *part.varying_problems))
        return [*self.found_problems(decision), *added]

    def warnings(self, decision: Decision) -> list[str]:
        """Return the warnings about a policy, and those that features add."""
        added = (text for part in self.policy_parts(decision) for text in part.warnings)
        return [*decision.policy.warnings, *added]

    def known(self, namespace: str) -> str:
        """Return the names of some policies of a namespace. Its pages name no other ones: see --opsAuthorize."""
        every = self.decider.latest.policies
        policies = [str(key) for key in every if key.namespace == namespace]
        more = f" and {len(policies) - _NAMED} more" if len(policies) > _NAMED else ""
        return (", ".join(policies[:_NAMED]) or "none") + more
