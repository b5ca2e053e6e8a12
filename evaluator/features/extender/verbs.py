"""Implements filter, prioritize and preempt: look up the decision of the pod's policy; nothing is evaluated here.

The texts of FailedNodes are made in `evaluator/core/policy/reasons.py`.

Exception: if a policy's rules use per-pod metrics, `ForPod` evaluates them for the pod.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from evaluator.core import protocol
from evaluator.core.model.names import POLICY_LABEL, PolicyKey
from evaluator.core.model.node_index import NodeScores
from evaluator.core.placement.ledger import PlacedPod
from evaluator.core.placement.placements import Placements
from evaluator.core.policy import ranking, violations
from evaluator.core.policy.decide import Decision, Decisions, NotReadyError
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import RankBy
from evaluator.core.protocol import Args, ForPod


def for_any(_args: Args, decision: Decision, _decisions: Decisions) -> Decision:
    """Return the decision unchanged, as for a pod without requests."""
    return decision


Count = Callable[[Decision, Decisions], Decision]
"""Returns a policy's decision with the pods that its readings do not include."""


def count_none(decision: Decision, _decisions: Decisions) -> Decision:
    """Return the decision unchanged, as if its readings included all pods."""
    return decision


class Result(StrEnum):
    """Reason of a response; the `result` label of the request counters."""

    DECIDED = "decided"
    NO_LABEL = "no_policy_label"
    NO_POLICY = "policy_not_found"
    NO_RULES = "no_rules"
    OBSERVED = "observed"


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The rejected nodes with their reasons. `observed`: those that a policy which is only observed would reject."""

    result: Result
    policy: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)
    observed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrioritizeAnswer:
    """`found`: scores 0..10; an absent node counts as 0. None if the answer prefers no node."""

    result: Result
    policy: str = ""
    found: NodeScores | None = None

    @property
    def scores(self) -> list[tuple[str, int]]:
        """Names with scores."""
        return list(self.found.pairs()) if self.found else []


def answer_filter(
    args: Args, decisions: Decisions, for_pod: ForPod = for_any, count: Count = count_none
) -> FilterAnswer:
    """Return the nodes that violate the dontschedule strategy of the pod's policy; none without one.

    Raises NotReadyError while the first reading of one of these nodes is pending.
    """
    policy, decision = _lookup(args, decisions, for_pod, count)
    if decision is None:
        return FilterAnswer(Result.NO_POLICY if policy else Result.NO_LABEL, policy)
    strategy = decision.policy.strategies.get(StrategyName.DONTSCHEDULE)
    if strategy is None or not strategy.rules:
        return FilterAnswer(Result.NO_RULES, policy)
    violating = violations.plain(decision.dontschedule) if decision.dontschedule else {}
    failed = {name: violating[name] for name in args.names if name in violating}
    if decision.policy.observed:
        return FilterAnswer(Result.OBSERVED, policy, observed=failed)
    return FilterAnswer(Result.DECIDED, policy, failed)


def answer_prioritize(
    args: Args, decisions: Decisions, for_pod: ForPod = for_any, count: Count = count_none
) -> PrioritizeAnswer:
    """Return the scores of the scheduleonmetric strategy of the pod's policy; none without one.

    Raises NotReadyError while the first reading of one of these nodes is pending.
    """
    policy, decision = _lookup(args, decisions, for_pod, count)
    if decision is None:
        return PrioritizeAnswer(Result.NO_POLICY if policy else Result.NO_LABEL, policy)
    if decision.policy.observed:
        return PrioritizeAnswer(Result.OBSERVED, policy)
    if decision.ranking is None:
        return PrioritizeAnswer(Result.NO_RULES, policy)
    return PrioritizeAnswer(Result.DECIDED, policy, decision.ranking.scored(args.names))


def _lookup(
    args: Args, decisions: Decisions, for_pod: ForPod, count: Count
) -> tuple[str, Decision | None]:
    policy = args.labels.get(POLICY_LABEL, "")
    # Pods from a scheduler have a namespace; requests by curl may omit it, so Kubernetes' default applies.
    key = PolicyKey(args.namespace or "default", policy)
    decision = decisions.policies.get(key)
    if decision is None or decision.policy.observed:
        return policy, decision
    if decision.unreported and not decision.unreported.isdisjoint(args.names):
        raise NotReadyError(f"waiting for the first readings for policy {key}: try again")
    if decision.policy.per_pod_metrics:
        decision = for_pod(args, decision, decisions)
    return policy, count(decision, decisions)


class CountingVerbs:
    """The verbs with the pods placed since the readings; each answer counts its pod where kube-scheduler probably puts it."""

    def __init__(self, placements: Placements | None, for_pod: ForPod = for_any) -> None:
        """`placements`: None if only readings count."""
        self._placements = placements
        self._for_pod = for_pod

    def filter(self, args: Args, decisions: Decisions, now: float) -> FilterAnswer:
        """Return `answer_filter` at `now` (seconds, the clock of the readings)."""
        answer = answer_filter(args, decisions, self._for_pod, self._count(args, now))
        if len(args.names) - len(answer.failed) == 1 and answer.result in _APPLIES:
            # kube-scheduler asks for no scores of a single node.
            self._answered(args, [name for name in args.names if name not in answer.failed], now)
        return answer

    def preempt(self, args: Args, decisions: Decisions, now: float) -> FilterAnswer:
        """Return `answer_filter` at `now` (seconds) on candidates for preemption.

        What the death of the victims would change is an estimate, and filter is called again before it is measured.
        """
        return answer_filter(args, decisions, self._for_pod, self._count(args, now))

    def prioritize(self, args: Args, decisions: Decisions, now: float) -> PrioritizeAnswer:
        """Return `answer_prioritize` at `now` (seconds, the clock of the readings)."""
        answer = answer_prioritize(args, decisions, self._for_pod, self._rank(args, now))
        if answer.found is not None:
            self._answered(args, ranking.best(answer.found), now)
        return answer

    def _count(self, args: Args, now: float) -> Count:
        if self._placements is None:
            return count_none
        self._placements.asked(args.uid)
        return partial(_counted, self._placements, now)

    def _rank(self, args: Args, now: float) -> Count:
        if self._placements is None:
            return count_none
        self._placements.asked(args.uid)
        return partial(_ranked, self._placements, args, now)

    def _answered(self, args: Args, nodes: Sequence[str], now: float) -> None:
        if self._placements is not None and args.uid:
            self._placements.answered(_pod(args), nodes, now)


_APPLIES = frozenset({Result.DECIDED, Result.NO_RULES})
"""Results for pods with an enforced policy."""


def _counted(
    placements: Placements, now: float, decision: Decision, decisions: Decisions
) -> Decision:
    return placements.counted(decision, decisions, now).decision


def _ranked(
    placements: Placements, args: Args, now: float, decision: Decision, decisions: Decisions
) -> Decision:
    counted = placements.counted(decision, decisions, now).decision
    if decision.policy.rank_by is not RankBy.HEADROOM:
        return counted
    return placements.with_pod(counted, decisions, _pod(args))


def _pod(args: Args) -> PlacedPod:
    key = PolicyKey(args.namespace or "default", args.labels[POLICY_LABEL])
    return PlacedPod(args.uid, key, protocol.requested(args))
