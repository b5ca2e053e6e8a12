"""The evaluator's flags: those of Telemetry Aware Scheduling and those of Plimsoll.

A new flag is a field here, or in the `options.py` of the package that reads it; then run `make docs`.
"""

from dataclasses import dataclass

from evaluator.core.sources.agents.options import AgentOptions
from evaluator.core.sources.options import SourceOptions
from evaluator.features.custom_metrics.options import CustomMetricsOptions
from evaluator.features.extender.options import ExtenderOptions
from evaluator.features.gangs.options import GangOptions
from evaluator.features.gangs.webhook_options import WebhookOptions
from evaluator.features.node_actions.options import NodeActionOptions
from evaluator.features.scorers.options import ScorerOptions
from plimsoll import durations, flags
from plimsoll.flags import option
from plimsoll.logs import LogOptions


def rate(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise ValueError(f"not a number above 0: {text!r}")
    return number


def verbosity(text: str) -> int:
    """klog's verbosity, 0 or more."""
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"not a verbosity: {text!r} (0, 1, 2, ...)")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class Settings(
    ExtenderOptions,
    ScorerOptions,
    GangOptions,
    NodeActionOptions,
    WebhookOptions,
    CustomMetricsOptions,
    AgentOptions,
    SourceOptions,
    LogOptions,
):
    """Every flag of plimsoll-evaluator. Times are in seconds."""

    kube_config: str = option(
        "kubeConfig",
        "",
        "kubeconfig file; without it the pod's service account is used, else ~/.kube/config",
        env="KUBECONFIG",
        metavar="FILE",
    )
    sync_period: float = option(
        "syncPeriod",
        5.0,
        "how often agents read the metrics that policies name, and the longest time between two reports; "
        "a changed .prom file is reported at once",
        metavar="DURATION",
        parse=durations.duration,
    )
    stale_after: float = option(
        "staleAfter",
        30.0,
        "age from which a reading counts as missing",
        metavar="DURATION",
        parse=durations.duration,
    )
    cluster_stale_after: float = option(
        "clusterStaleAfter",
        240.0,
        "after so long without data from the API server, cached policies, nodes or pods are stale: kube-scheduler still gets "
        "answers, but nothing is written and /readyz fails; a watch ends after 5 to 10 minutes, or half of it if that is less",
        metavar="DURATION",
        parse=durations.duration,
    )
    ops_port: int = option(
        "opsPort",
        8080,
        "port of /healthz, /readyz, /metrics, /explain and the pages for a browser; plain HTTP without --opsTls",
        metavar="PORT",
        parse=flags.port,
    )
    ops_tls: bool = option(
        "opsTls",
        False,
        "serve the ops port over TLS, with --cert and --key; changed files are loaded",
    )
    ops_authorize: bool = option(
        "opsAuthorize",
        False,
        "admit only users with a bearer token and, by RBAC, the permission to get the nonResourceURL /metrics, or /plimsoll "
        "and the path of what the page shows; /healthz and /readyz stay open",
    )
    explain: bool = option(
        "explain",
        True,
        "serve pages for a browser, and /explain as JSON, on the ops port, to any client that can reach it: policies with the readings of all nodes, and why "
        "pods wait",
    )
    shutdown_delay: float = option(
        "shutdownDelay",
        5.0,
        "how long requests are still answered after SIGTERM made /readyz fail, until kube-proxy and other clients have removed "
        "the replica; a pod needs 15s more for terminationGracePeriodSeconds. SIGINT or a second SIGTERM end it",
        metavar="DURATION",
        parse=durations.duration,
    )
    bind_address: str = option(
        "bindAddress", "", "address to listen on; empty for all", metavar="ADDRESS"
    )
    observe: bool = option(
        "observe",
        False,
        "only observe all policies: decide and show them (status, events, metrics, /explain), but tell kube-scheduler nothing, "
        "set no labels and evict no pods. One policy: the annotation plimsoll.io/enforcement: observe",
    )
    evict: bool = option(
        "evict", False, "evict pods from nodes that violate their policy's deschedule strategy"
    )
    evict_period: float = option(
        "evictPeriod",
        10.0,
        "period in which at most --evictLimit pods of one policy are evicted",
        metavar="DURATION",
        parse=durations.duration,
    )
    evict_limit: int = option(
        "evictLimit", 1, "evictions per policy in one period", metavar="N", parse=flags.count
    )
    leader_elect: bool = option(
        "leaderElect",
        True,
        "elect a leader, the only replica that writes to the cluster; all replicas answer kube-scheduler. Without it, this "
        "replica always writes",
    )
    lease_name: str = option(
        "leaseName", "plimsoll-evaluator", "name of the Lease for the election", metavar="NAME"
    )
    lease_namespace: str = option(
        "leaseNamespace",
        "",
        "namespace of the Lease; by default the pod's own, or `default` outside a pod",
        env="POD_NAMESPACE",
        metavar="NAMESPACE",
    )
    lease_duration: float = option(
        "leaseDuration",
        12.0,
        "how long other replicas wait for a leader that no longer renews; whole seconds",
        metavar="DURATION",
        parse=durations.duration,
    )
    renew_deadline: float = option(
        "renewDeadline",
        8.0,
        "how long a leader writes without a successful renewal",
        metavar="DURATION",
        parse=durations.duration,
    )
    retry_period: float = option(
        "retryPeriod",
        2.0,
        "how often the leader renews the lease and others read it",
        metavar="DURATION",
        parse=durations.duration,
    )
    kube_qps: float = option(
        "kubeQPS",
        50,
        "node label writes per second on average; twice as many may come at once",
        metavar="N",
        parse=rate,
    )
    nudge: bool = option(
        "nudge",
        True,
        "requeue a rejected pod, by an annotation on it, as soon as its policy permits a node again; without it "
        "kube-scheduler retries within 5 minutes",
    )
    v: int = option(
        "v", 2, "log verbosity as in TAS: 4 or more means debug", metavar="N", parse=verbosity
    )
    cache_port: int = option(
        "cachePort",
        0,
        "accepted for compatibility with TAS, no effect",
        metavar="PORT",
        parse=flags.port,
    )

    @property
    def agents_plain(self) -> bool:
        """Whether the agents' port has no TLS: by --agentUnsafe, or by --unsafe without --agentCert."""
        return self.agent_unsafe or (self.unsafe and not self.agent_cert)

    def mistakes(self) -> list[str]:
        """Mistakes in the combination of flags, one sentence each."""
        found = []
        if self.sync_period <= 0:
            found.append("--syncPeriod must be more than 0")
        if self.evict_period <= 0:
            found.append("--evictPeriod must be more than 0, or --evictLimit has no effect")
        if self.lease_duration < 1 or self.lease_duration % 1:
            found.append("--leaseDuration must be whole seconds, 1 or more, as in a Lease")
        if not self.renew_deadline < self.lease_duration:
            found.append(
                "--renewDeadline must be less than --leaseDuration, or two replicas could write at once"
            )
        if not 0 < self.retry_period <= self.renew_deadline / 2:
            found.append(
                "--retryPeriod must be more than 0 and at most half of --renewDeadline, or one failed call ends leadership"
            )
        if self.ops_authorize and not self.ops_tls:
            found.append("--opsAuthorize requires --opsTls, or tokens would be sent in plain text")
        found += self.agent_mistakes(plain=self.agents_plain)
        if self.cluster_stale_after <= 0:
            found.append("--clusterStaleAfter must be more than 0")
        found += self.extender_mistakes()
        ports = {self.port: "--port", self.agent_port: "--agentPort", self.ops_port: "--opsPort"}
        found += self.scorer_mistakes(ports)
        found += self.gang_mistakes()
        of_scorers = dict.fromkeys(self.ports_of_scorers.values(), "--scorerPorts")
        found += self.webhook_mistakes({**of_scorers, **ports}, gangs=self.gangs)
        of_webhook = {self.gang_webhook_port: "--gangWebhookPort"}
        found += self.custom_metrics_mistakes({**of_webhook, **of_scorers, **ports})
        found += self.source_mistakes()
        if self.stale_after < 2 * self.sync_period:
            found.append(
                "--staleAfter must be at least twice --syncPeriod, or readings become stale between two reports"
            )
        return found
