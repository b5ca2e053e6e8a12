"""Which nodes a policy has let in again, and when: a pod that it turned away may have a node there now."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from evaluator.model.names import PolicyKey
from evaluator.policy.decide import Decision, Decisions


@dataclass(frozen=True, slots=True)
class ReadmittedNodes:
    """The nodes that a policy stopped refusing, and when (seconds), in the order of time.

    Those that it refuses again stay in it. `start`: when every other node counts as just let in (None: no other does), as
    after a start, when nobody knows whom an earlier life refused.
    """

    nodes: Mapping[str, float] = field(default_factory=dict)
    start: float | None = None

    def times(self, takers: Set[str], decision: Decision | None) -> list[float]:
        """When those of the takers were let in that are not refused now, in ascending order."""
        refused: Set[str] = decision.dontschedule.keys() if decision else frozenset()
        times = [at for node, at in self.nodes.items() if node in takers and node not in refused]
        if self.start is not None and any(
            node not in refused and node not in self.nodes for node in takers
        ):
            return [self.start, *times]
        return times

    def after(self, horizon: float) -> "ReadmittedNodes":
        """Without what was before then."""
        gone = self.start is not None and self.start <= horizon
        if not gone and next(iter(self.nodes.values()), horizon + 1) > horizon:
            return self
        nodes = {node: at for node, at in self.nodes.items() if at > horizon}
        return ReadmittedNodes(nodes, None if gone else self.start)

    def with_nodes(self, nodes: Iterable[str], at: float) -> "ReadmittedNodes":
        """With nodes that are let in now."""
        more = dict.fromkeys(nodes, at)
        old = {node: then for node, then in self.nodes.items() if node not in more}
        return ReadmittedNodes(old | more, self.start)


ReadmittedByPolicy = Mapping[PolicyKey, ReadmittedNodes]


def newly_allowed(before: Decisions, after: Decisions) -> dict[PolicyKey, Set[str]]:
    """Per policy the nodes that it refused and refuses no longer, because a reading, a rule or the policy itself changed."""
    found: dict[PolicyKey, Set[str]] = {}
    for key, was in before.policies.items():
        now = after.policies.get(key)
        if now is not None and (now is was or now.dontschedule is was.dontschedule):
            continue
        if nodes := was.dontschedule.keys() - (now.dontschedule.keys() if now else ()):
            found[key] = nodes
    return found


def all_readmitted(decisions: Decisions, now: float) -> dict[PolicyKey, ReadmittedNodes]:
    """After a start: every policy has just let in all nodes that it does not refuse."""
    return {key: ReadmittedNodes(start=now) for key in decisions.policies}


def remember(
    readmitted_by_policy: ReadmittedByPolicy,
    more: Mapping[PolicyKey, Iterable[str]],
    *,
    now: float,
    memory: float,
) -> dict[PolicyKey, ReadmittedNodes]:
    """Openings with those of this moment in it, and without those that are `memory` seconds old. What is unchanged is the same."""
    merged = dict(_kept(readmitted_by_policy, now - memory))
    for key, nodes in more.items():
        merged[key] = merged.get(key, ReadmittedNodes()).with_nodes(nodes, now)
    return merged


def _kept(
    readmitted_by_policy: ReadmittedByPolicy, horizon: float
) -> Iterator[tuple[PolicyKey, ReadmittedNodes]]:
    for key, readmitted in readmitted_by_policy.items():
        kept = readmitted.after(horizon)
        if kept.nodes or kept.start is not None:
            yield key, kept
