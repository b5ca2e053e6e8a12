"""The flags of the core; each feature has those of its own."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.sources.agents.options import AgentOptions
from evaluator.core.sources.options import SourceOptions
from plimsoll import durations, flags
from plimsoll.flags import option
from plimsoll.http import networks
from plimsoll.http.limits import Limits
from plimsoll.logs import LogOptions

_DEFAULT = Limits()


@dataclass(frozen=True, kw_only=True)
class KubeOptions:
    """The API server. Also for subcommands."""

    kube_config: str = option(
        "kubeConfig",
        "",
        "kubeconfig file; without it the pod's service account is used, else ~/.kube/config",
        env="KUBECONFIG",
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class SchedulerPortOptions:
    """The port of kube-scheduler."""

    port: int = option(
        "port", 9001, "port for requests of kube-scheduler", metavar="PORT", parse=flags.port
    )
    cert: str = option(
        "cert", "/etc/kubernetes/pki/ca.crt", "server certificate of that port", metavar="FILE"
    )
    key: str = option("key", "/etc/kubernetes/pki/ca.key", "its private key", metavar="FILE")
    cacert: str = option(
        "cacert",
        "/etc/kubernetes/pki/ca.crt",
        "the CA that must have signed the scheduler's client certificate",
        metavar="FILE",
    )
    client_names: tuple[str, ...] = option(
        "clientNames",
        (),
        "names (CN or DNS), one of which a client certificate must have, e.g. `system:kube-scheduler`; repeatable, or "
        "separated by commas. By default every certificate of that CA is accepted, as in Telemetry Aware Scheduling",
        metavar="NAME",
        parse=flags.names,
    )
    unsafe: bool = option(
        "unsafe", False, "serve kube-scheduler over plain HTTP, without authentication of clients"
    )
    limits: Limits = _DEFAULT
    """Timeouts, sizes and connections of each HTTP port. Constants: tests pass smaller ones, no flag sets them."""

    @property
    def allowed_clients(self) -> frozenset[str]:
        """The names of `clientNames`; empty if any client is allowed."""
        return frozenset(name for item in self.client_names for name in item.split(","))

    def scheduler_port_mistakes(self) -> list[str]:
        """Return the errors in these settings together, as sentences."""
        errors = []
        if self.client_names and self.unsafe:
            errors.append(
                "--clientNames and --unsafe contradict each other: plain HTTP has no certificates"
            )
        return errors


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
class FeatureOptions:
    """The flags of a feature; this class itself has none."""

    def ports(self) -> Mapping[int, str]:
        """Return the ports that the feature opens, with the flag of each."""
        return {}

    def words(self, vocabulary: Vocabulary) -> Vocabulary:
        """Return the words of policies with these flags."""
        return vocabulary

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterable[str]:
        """Yield errors in these flags together, each as a sentence.

        `taken`: the ports of the core and of features earlier in the list, with the flag of each.
        """
        return ()


@dataclass(frozen=True, kw_only=True)
class OpsPortOptions:
    """The operations port, and what all ports share. Times are in seconds."""

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
    pages_from: networks.Networks = option(
        "pagesFrom",
        frozenset(),
        "networks whose clients may read all pages without a token, such as the API servers' addresses for the service proxy of "
        "kubectl and Headlamp. Others are refused, except on loopback, where kubectl port-forward is; with a service mesh, all "
        "clients may be there: use --opsAuthorize, which requires a token of everyone",
        metavar="NETWORK,...",
        parse=networks.parse,
    )
    bind_address: str = option(
        "bindAddress", "", "address to listen on; empty for all", metavar="ADDRESS"
    )
    shutdown_delay: float = option(
        "shutdownDelay",
        5.0,
        "how long requests are still answered after SIGTERM made /readyz fail, until kube-proxy and other clients have removed "
        "the replica; a pod needs 15s more for terminationGracePeriodSeconds. SIGINT or a second SIGTERM end it",
        metavar="DURATION",
        parse=durations.duration,
    )


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """Decisions. Times are in seconds."""

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
    observe: bool = option(
        "observe",
        False,
        "only observe all policies: decide and show them (status, events, metrics, /explain), but answer kube-scheduler with all nodes, "
        "change no node and no pod. One policy: the annotation plimsoll.io/enforcement: observe",
    )
    count_placed: bool = option(
        "countPlaced",
        True,
        "count pods that were placed since a reading when nodes are filtered and ranked, so that a burst is spread. One "
        "policy: the annotation plimsoll.io/placed-since: ignore. Without it, only readings count, as in Telemetry Aware "
        "Scheduling",
    )


@dataclass(frozen=True, kw_only=True)
class LeaderOptions:
    """Election of the leader. Times are in seconds."""

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


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Writes to nodes."""

    kube_qps: float = option(
        "kubeQPS",
        50,
        "node label writes per second on average; twice as many may come at once",
        metavar="N",
        parse=rate,
    )


@dataclass(frozen=True, kw_only=True)
class CompatibilityOptions:
    """Flags of Telemetry Aware Scheduling."""

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


@dataclass(frozen=True, kw_only=True)
class CoreOptions(
    SchedulerPortOptions,
    AgentOptions,
    OpsPortOptions,
    SourceOptions,
    KubeOptions,
    DecisionOptions,
    WriteOptions,
    LeaderOptions,
    LogOptions,
    CompatibilityOptions,
    FeatureOptions,
):
    """The flags that every part of the evaluator may need, in the order of --help. Times are in seconds."""

    @property
    def agents_plain(self) -> bool:
        """Whether the agents' port has no TLS: by --agentUnsafe, or by --unsafe without --agentCert."""
        return self.agent_unsafe or (self.unsafe and not self.agent_cert)

    def ports(self) -> Mapping[int, str]:
        """Return the ports of the core, with the flag of each."""
        return {self.port: "--port", self.agent_port: "--agentPort", self.ops_port: "--opsPort"}

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterator[str]:
        """Yield errors in these flags together, each as a sentence."""
        if self.sync_period <= 0:
            yield "--syncPeriod must be more than 0"
        if self.lease_duration < 1 or self.lease_duration % 1:
            yield "--leaseDuration must be whole seconds, 1 or more, as in a Lease"
        if not self.renew_deadline < self.lease_duration:
            yield "--renewDeadline must be less than --leaseDuration, or two replicas could write at once"
        if not 0 < self.retry_period <= self.renew_deadline / 2:
            yield (
                "--retryPeriod must be more than 0 and at most half of --renewDeadline, or one failed call ends leadership"
            )
        if self.ops_authorize and not self.ops_tls:
            yield "--opsAuthorize requires --opsTls, or tokens would be sent in plain text"
        yield from self.agent_mistakes(plain=self.agents_plain)
        if self.cluster_stale_after <= 0:
            yield "--clusterStaleAfter must be more than 0"
        yield from self.scheduler_port_mistakes()
        yield from self.source_mistakes()
        if self.stale_after < 2 * self.sync_period:
            yield (
                "--staleAfter must be at least twice --syncPeriod, or readings become stale between two reports"
            )
