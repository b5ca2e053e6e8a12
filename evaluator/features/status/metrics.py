"""The metrics of Events on policies and pods, and of pods that name a policy."""

from prometheus_client import CollectorRegistry, Counter

from evaluator.core.metrics import PolicyGauge


class StatusMetrics:
    """The metrics of Events on policies and pods, and of pods that name a policy."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.policy_pods = PolicyGauge(
            "plimsoll_policy_pods",
            "Waiting and running pods that name a policy by state: following, or ignored, since the policy does not apply to them.",
            ["namespace", "policy", "state"],
            registry=registry,
        )
        self.pod_events = Counter(
            "plimsoll_pod_events",
            "Events on pods that name a policy, by reason and result.",
            ["reason", "result"],
            registry=registry,
        )
        self.policy_events = Counter(
            "plimsoll_policy_events",
            "Occurrences recorded as Events on a policy by reason; under the rate limit, several share one write.",
            ["namespace", "policy", "reason"],
            registry=registry,
        )
