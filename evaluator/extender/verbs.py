"""filter and prioritize: look a pod's policy up in the decisions, and answer. Nothing is evaluated here.

But for a policy whose rules name what depends on the pod: then `ForPod` gives the decision for this one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evaluator.extender.codec import Args
from evaluator.model.names import POLICY_LABEL, PolicyKey
from evaluator.policy import violations
from evaluator.policy.decide import Decision, Decisions, NotReadyError
from evaluator.policy.types import StrategyName

ForPod = Callable[[Args, Decision, Decisions], Decision]
"""One of some decisions, as it is for the pod that is asked about."""


def for_any(_args: Args, decision: Decision, _decisions: Decisions) -> Decision:
    """As it is for a pod that asks for nothing."""
    return decision


class Result(StrEnum):
    """Why an answer is what it is; the `outcome` label of the request counters."""

    DECIDED = "decided"
    NO_LABEL = "no_policy_label"
    NO_POLICY = "policy_not_found"
    NO_RULES = "no_rules"


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The nodes that a pod must not go to, each with the reason."""

    outcome: Result
    policy: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrioritizeAnswer:
    """Scores 0..10; a node that is not in it counts as 0."""

    outcome: Result
    policy: str = ""
    scores: list[tuple[str, int]] = field(default_factory=list)


def answer_filter(args: Args, decisions: Decisions, for_pod: ForPod = for_any) -> FilterAnswer:
    """Which of these nodes violate the dontschedule strategy of the pod's policy. Without one, every node passes.

    Raises NotReadyError while a first reading of one of these nodes is on its way.
    """
    policy, decision = _lookup(args, decisions, for_pod)
    if decision is None:
        return FilterAnswer(Result.NO_POLICY if policy else Result.NO_LABEL, policy)
    strategy = decision.policy.strategies.get(StrategyName.DONTSCHEDULE)
    if strategy is None or not strategy.rules:
        return FilterAnswer(Result.NO_RULES, policy)
    violating = violations.plain(decision.dontschedule) if decision.dontschedule else {}
    failed = {name: violating[name] for name in args.names if name in violating}
    return FilterAnswer(Result.DECIDED, policy, failed)


def answer_prioritize(
    args: Args, decisions: Decisions, for_pod: ForPod = for_any
) -> PrioritizeAnswer:
    """How good these nodes are by the scheduleonmetric strategy of the pod's policy. Without one, no scores.

    Raises NotReadyError while a first reading of one of these nodes is on its way.
    """
    policy, decision = _lookup(args, decisions, for_pod)
    if decision is None:
        return PrioritizeAnswer(Result.NO_POLICY if policy else Result.NO_LABEL, policy)
    if decision.ranking is None:
        return PrioritizeAnswer(Result.NO_RULES, policy)
    return PrioritizeAnswer(Result.DECIDED, policy, decision.ranking.scores(args.names))


def _lookup(args: Args, decisions: Decisions, for_pod: ForPod) -> tuple[str, Decision | None]:
    policy = args.labels.get(POLICY_LABEL, "")
    # A pod without a namespace cannot come from a scheduler; Kubernetes' own default is what a person with curl means.
    key = PolicyKey(args.namespace or "default", policy)
    decision = decisions.policies.get(key)
    if decision and decision.unreported and not decision.unreported.isdisjoint(args.names):
        raise NotReadyError(f"the first readings for policy {key} are on their way: try again")
    if decision and decision.policy.per_pod_metrics:
        decision = for_pod(args, decision, decisions)
    return policy, decision
