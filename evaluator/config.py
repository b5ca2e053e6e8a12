"""The evaluator's settings: the flags of Telemetry Aware Scheduling, and ours beside them."""

from dataclasses import dataclass

from plimsoll import flags
from plimsoll.flags import option
from plimsoll.logs import LogOptions


def count(text: str) -> int:
    """A whole number, 1 or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"not a number of 1 or more: {text!r}")
    return int(text)


def verbosity(text: str) -> int:
    """klog's verbosity, 0 or more."""
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"not a verbosity: {text!r} (0, 1, 2, ...)")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class Settings(LogOptions):
    """Every flag of plimsoll-evaluator. Times are in seconds."""

    kube_config: str = option(
        "kubeConfig",
        "",
        "kubeconfig file; without it the pod's service account is used, else ~/.kube/config",
        env="KUBECONFIG",
        metavar="FILE",
    )
    port: int = option(
        "port", 9001, "port on which kube-scheduler is answered", metavar="PORT", parse=flags.port
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
    unsafe: bool = option(
        "unsafe", False, "answer kube-scheduler over plain HTTP, to anybody who can reach the port"
    )
    sync_period: float = option(
        "syncPeriod",
        5.0,
        "how often agents read what policies name, and the longest time between two of their reports; "
        "a changed .prom file is reported at once",
        metavar="DURATION",
        parse=flags.duration,
    )
    stale_after: float = option(
        "staleAfter",
        30.0,
        "a reading older than this is missing",
        metavar="DURATION",
        parse=flags.duration,
    )
    agent_port: int = option(
        "agentPort", 9091, "port to which agents stream (gRPC)", metavar="PORT", parse=flags.port
    )
    ops_port: int = option(
        "opsPort",
        8080,
        "port of /healthz, /readyz, /metrics and /explain (plain HTTP)",
        metavar="PORT",
        parse=flags.port,
    )
    bind_address: str = option(
        "bindAddress", "", "address to listen on; empty means all of them", metavar="ADDRESS"
    )
    evict: bool = option(
        "evict", False, "evict pods from nodes that violate their policy's deschedule strategy"
    )
    evict_period: float = option(
        "evictPeriod",
        10.0,
        "the time in which at most --evictLimit pods of one policy are evicted",
        metavar="DURATION",
        parse=flags.duration,
    )
    evict_limit: int = option(
        "evictLimit", 1, "pods of one policy evicted in one period", metavar="N", parse=count
    )
    nudge: bool = option(
        "nudge",
        True,
        "have kube-scheduler try a pod again as soon as a node is let in that its policy kept it off, by an annotation "
        "on the pod; without it that takes up to 5 minutes",
    )
    v: int = option(
        "v", 2, "log verbosity as TAS took it: 4 or more means debug", metavar="N", parse=verbosity
    )
    cache_port: int = option(
        "cachePort", 0, "accepted for TAS's sake, without effect", metavar="PORT", parse=flags.port
    )

    def mistakes(self) -> list[str]:
        """What is wrong with these settings together, each in a sentence."""
        found = []
        if self.sync_period <= 0:
            found.append("--syncPeriod must be more than 0")
        if self.evict_period <= 0:
            found.append("--evictPeriod must be more than 0, or --evictLimit would bound nothing")
        if self.stale_after < 2 * self.sync_period:
            found.append(
                "--staleAfter must be at least twice --syncPeriod, or readings grow stale between two reports"
            )
        return found
