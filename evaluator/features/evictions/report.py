"""What statuses, Events and pages say about pods that stay on violating nodes, and why."""

from collections.abc import Callable, Collection, Mapping

from msgspec import UNSET

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.model.events import EventSpec
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod
from evaluator.core.page_fields import Fields, Maybe, PodFields, PolicyFields
from evaluator.core.policy.decide import Decision
from evaluator.core.policy_status import Episode, PolicyCondition, PolicyPart
from evaluator.features.evictions.plan import PASSING, PolicyPlan, named
from evaluator.features.evictions.successors import BY_COUNTS

PODS_STAY = "PodsStay"
"""Condition type of a policy some of whose pods are not evicted from violating nodes."""
NOT_EVICTED = "NotEvicted"
"""Reason of the Event on such a pod."""
_STAY = Episode(
    PODS_STAY,
    EventSpec(
        "Warning",
        PODS_STAY,
        f"pods stay on nodes that violate the policy: the condition {PODS_STAY} names them, and what keeps them",
    ),
    EventSpec(
        "Normal", "NoPodStays", "nothing keeps pods on nodes that violate the policy any more"
    ),
)
_SHOWN = 100
"""Pods that a page names for each reason; the others are counted."""
_REASONS = 10
"""Reasons that a status names."""


class StayingPods(Fields, kw_only=True):
    """Pods of a policy that stay on violating nodes for one reason."""

    why: str
    pods: list[str]
    pods_more: Maybe[int] = UNSET


class PolicyStaysFields(PolicyFields):
    """The pods of a policy that are not evicted from violating nodes."""

    pods_stay: list[StayingPods]
    successors: Maybe[str] = UNSET
    """How the successors of evicted pods are checked, where not against all pods."""


class NotEvictedFields(PodFields):
    """Why a pod is not evicted from a violating node."""

    not_evicted: Maybe[str] = UNSET


def against_all() -> str:
    """Return nothing: successors are checked against all pods."""
    return ""


class EvictionReport:
    """The last plan of each policy. `changed` is called when what statuses say differs.

    `checked` returns how successors are checked, if not against all pods.
    """

    def __init__(
        self, changed: Callable[[], None], checked: Callable[[], str] = against_all
    ) -> None:
        self._changed = changed
        self._checked = checked
        self._plans: Mapping[PolicyKey, PolicyPlan] = {}
        self._said: Mapping[PolicyKey, str] = {}
        self._trouble = ""

    def update(self, plans: Collection[PolicyPlan], trouble: str = "") -> None:
        """Replace the plans. `trouble`: what slows all evictions down; empty if nothing does."""
        self._plans = {plan.policy: plan for plan in plans}
        said = {plan.policy: text for plan in plans if (text := self._kept(plan))}
        if (said, trouble) != (self._said, self._trouble):
            self._said, self._trouble = said, trouble
            self._changed()

    def part(self, decision: Decision) -> PolicyPart:
        """Return the condition and the Events about pods of a policy that stay; nothing for an observed policy."""
        if decision.policy.observed or "deschedule" not in decision.policy.strategies:
            return PolicyPart()
        text = self._said.get(decision.policy.key, "")
        state = PolicyCondition(
            PODS_STAY,
            "True" if text else "False",
            "NotEvicted" if text else "NoPodStays",
            text or self._with_check("nothing keeps pods on nodes that violate the policy"),
        )
        trouble = (self._trouble,) if self._trouble else ()
        return PolicyPart(
            varying_problems=trouble, conditions=(state,), episodes={_STAY: bool(text)}
        )

    def policy(self, decision: Decision) -> PolicyStaysFields | None:
        """Return the pods of a policy that stay, by why."""
        plan = self._plans.get(decision.policy.key)
        if plan is None or decision.policy.observed:
            return None
        stays = [_shown(self._in_full(why), pods) for why, pods in plan.stays.items()]
        return PolicyStaysFields(pods_stay=stays, successors=self._checked() or UNSET)

    def pod(self, pod: Pod) -> NotEvictedFields | None:
        """Return why a pod stays on a violating node; nothing if it does not."""
        plan = self._plans.get(key) if (key := policy_of(pod)) is not None else None
        for why, pods in plan.stays.items() if plan is not None else ():
            if any(one.metadata.uid == pod.metadata.uid for one in pods):
                return NotEvictedFields(not_evicted=self._in_full(why))
        return None

    def _kept(self, plan: PolicyPlan) -> str:
        """Return what keeps pods of a policy longer than until their turn; empty if nothing does."""
        kept = [(why, pods) for why, pods in plan.stays.items() if why not in PASSING]
        phrases = [
            f"{named(sorted(map(str, pods)))} stay: {self._in_full(why)}"
            for why, pods in sorted(kept)
        ]
        more = f"; and {len(phrases) - _REASONS} more reasons" if len(phrases) > _REASONS else ""
        return "; ".join(phrases[:_REASONS]) + more

    def _in_full(self, why: str) -> str:
        """Return why pods stay, with how successors are checked if other pods could lift it."""
        return self._with_check(why) if why in BY_COUNTS else why

    def _with_check(self, text: str) -> str:
        checked = self._checked()
        return f"{text}; successors are {checked}" if checked else text


def _shown(why: str, pods: Collection[Pod]) -> StayingPods:
    names = sorted(map(str, pods))
    more = len(names) - _SHOWN if len(names) > _SHOWN else UNSET
    return StayingPods(why=why, pods=names[:_SHOWN], pods_more=more)


def notice(why: str) -> EventSpec:
    """Return the Event on a pod that stays."""
    return EventSpec(
        "Warning", NOT_EVICTED, f"not evicted from a node that violates the policy: {why}"
    )
