"""Nodes that a policy stopped refusing, and when: pods it rejected may fit there now."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import Floats, NodeIndex, NodeMask, Reindex
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.violations import violators


@dataclass(frozen=True, slots=True)
class ReadmittedNodes:
    """When a policy stopped refusing each node (seconds; NaN: not recently), as an array over `nodes`.

    Nodes refused again keep their time. `start`: the time at which all other nodes count as readmitted (None: not).
    It is set after startup, when the nodes refused by the previous process are unknown.
    """

    nodes: NodeIndex = field(default_factory=NodeIndex)
    at: Floats = field(default_factory=lambda: np.zeros(0))
    start: float | None = None

    def times(self, feasible: Set[str], decision: Decision | None) -> list[float]:
        """Return, in ascending order, when the `feasible` nodes that are not refused now were readmitted."""
        refused: Set[str] = decision.dontschedule.keys() if decision else frozenset()
        known = NodeMask(self.nodes, ~np.isnan(self.at))
        pairs = zip(known.names, self.at[known.mask].tolist(), strict=True)
        times = sorted(at for node, at in pairs if node in feasible and node not in refused)
        if self.start is not None and any(
            node not in refused and node not in known.members for node in feasible
        ):
            return [self.start, *times]
        return times

    def after(self, horizon: float) -> "ReadmittedNodes":
        """Return the entries after `horizon`; the same object if all are."""
        expired = self.start is not None and self.start <= horizon
        old = self.at <= horizon
        if not expired and not old.any():
            return self
        return ReadmittedNodes(
            self.nodes, np.where(old, np.nan, self.at), None if expired else self.start
        )

    def with_nodes(self, nodes: NodeMask, at: float) -> "ReadmittedNodes":
        """Return a copy with nodes readmitted at `at`."""
        known = Reindex(self.nodes, nodes.nodes).values(self.at)
        return ReadmittedNodes(nodes.nodes, np.where(nodes.mask, at, known), self.start)

    @property
    def empty(self) -> bool:
        """Whether no node counts as readmitted."""
        return self.start is None and bool(np.isnan(self.at).all())


ReadmittedByPolicy = Mapping[PolicyKey, ReadmittedNodes]


def newly_allowed(before: Decisions, after: Decisions) -> dict[PolicyKey, NodeMask]:
    """Return, per enforced policy, the nodes that it refused before and does not refuse now."""
    allowed: dict[PolicyKey, NodeMask] = {}
    nodes = after.table.nodes
    reindex = Reindex(before.table.nodes, nodes)
    for key, was in before.enforced.items():
        now = after.enforced.get(key)
        if now is not None and (now is was or now.dontschedule is was.dontschedule):
            continue
        refused = violators(now.dontschedule if now else {}, nodes)
        readmitted = reindex.mask(violators(was.dontschedule, before.table.nodes)) & ~refused
        if readmitted.any():
            allowed[key] = NodeMask(nodes, readmitted)
    return allowed


def all_readmitted(decisions: Decisions, now: float) -> dict[PolicyKey, ReadmittedNodes]:
    """Return the state after startup: every node that is not refused counts as just readmitted."""
    return {key: ReadmittedNodes(start=now) for key in decisions.policies}


def remember(
    readmitted_by_policy: ReadmittedByPolicy,
    more: Mapping[PolicyKey, NodeMask],
    *,
    now: float,
    memory: float,
) -> dict[PolicyKey, ReadmittedNodes]:
    """Add the nodes readmitted now, and drop those older than `memory` seconds; unchanged entries are the same objects."""
    merged = dict(_kept(readmitted_by_policy, now - memory))
    for key, nodes in more.items():
        merged[key] = merged.get(key, ReadmittedNodes()).with_nodes(nodes, now)
    return merged


def _kept(
    readmitted_by_policy: ReadmittedByPolicy, horizon: float
) -> Iterator[tuple[PolicyKey, ReadmittedNodes]]:
    for key, readmitted in readmitted_by_policy.items():
        kept = readmitted.after(horizon)
        if not kept.empty:
            yield key, kept
