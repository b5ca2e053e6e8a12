"""What statuses say about pods that stay on violating nodes."""

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.pod import Pod, PodMeta
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.features.evictions.kept import BARE
from evaluator.features.evictions.plan import PolicyPlan
from evaluator.features.evictions.report import EvictionReport
from evaluator.features.evictions.successors import ANTI_AFFINITY, POLICY_PODS_ONLY, SPREAD

KEY = PolicyKey("ns", "demo")
DECISION = Decision(Policy(KEY, {StrategyName.DESCHEDULE: None}))
POD = Pod(PodMeta(name="web", namespace="ns"))


def message(checked, **stays):
    """The message of the condition, with the pod that stays by why."""
    report = EvictionReport(lambda: None, lambda: checked)
    report.update([PolicyPlan(KEY, stays=dict.fromkeys(stays.values(), (POD,)))])
    (condition,) = report.part(DECISION).conditions
    return condition.message


def test_status_says_against_which_pods_successors_are_checked():
    suffix = "; successors are checked against pods with a policy only: see --gangs and --scorers"
    nothing = "nothing keeps pods on nodes that violate the policy"
    assert message(POLICY_PODS_ONLY) == nothing + suffix
    assert message(POLICY_PODS_ONLY, why=SPREAD) == f"1 pod (ns/web) stay: {SPREAD}{suffix}"
    apart = f"1 pod (ns/web) stay: {ANTI_AFFINITY}"  # of known pods: others change nothing
    assert message(POLICY_PODS_ONLY, why=ANTI_AFFINITY) == apart
    assert message(POLICY_PODS_ONLY, why=BARE) == f"1 pod (ns/web) stay: {BARE}"


def test_status_is_silent_where_all_pods_are_watched():
    assert message("") == "nothing keeps pods on nodes that violate the policy"
    assert message("", why=SPREAD) == f"1 pod (ns/web) stay: {SPREAD}"
