"""Flags that say where readings come from."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from evaluator.policy.metric_limit import MOST_METRICS, MOST_RULES
from evaluator.readings.merged import AGENTS, CUSTOM_METRICS, PROMETHEUS
from plimsoll import durations, flags
from plimsoll.flags import option

_NO_URL = "not an http or https URL: write it like http://prometheus.monitoring:9090"
SOURCES = (AGENTS, CUSTOM_METRICS, PROMETHEUS)


def sources(text: str) -> str:
    """Names of sources with commas between them."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in SOURCES:
            raise ValueError(f"{name!r} is not one of {', '.join(SOURCES)}")
    return ",".join(names)


def web_address(text: str) -> str:
    """An http or https URL without a user in it: a command line is no place for a password.

    Nor is a message: what may have a password in it is not quoted.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_NO_URL) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(_NO_URL)
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("a URL without user, query and fragment is wanted")
    return text


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Which sources, in which order, and how to reach them."""

    metrics_source: tuple[str, ...] = option(
        "metricsSource",
        (AGENTS,),
        f"where readings come from: {', '.join(SOURCES)}; of several (repeatable, or with commas between them), the "
        "first that has a fresh reading of a metric for a node wins",
        metavar="SOURCE",
        parse=sources,
    )
    max_metrics: int = option(
        "maxMetrics",
        MOST_METRICS,
        "metrics that sources are asked for, of all that policies name; those of policies that name fewest come first, and "
        "a policy that goes short says so in its status",
        metavar="N",
        parse=flags.count,
    )
    max_rules: int = option(
        "maxRules",
        MOST_RULES,
        "rules that are evaluated, of all that policies have; policies with the fewest come first, and a policy whose "
        "strategy is left out says so in its status",
        metavar="N",
        parse=flags.count,
    )
    source_timeout: float = option(
        "sourceTimeout",
        5.0,
        "how long the custom metrics API or Prometheus may take to answer for one metric",
        metavar="DURATION",
        parse=durations.duration,
    )
    prometheus_url: str = option(
        "prometheusUrl",
        "",
        "where Prometheus is, up to its /api/v1: http://prometheus.monitoring:9090",
        metavar="URL",
        parse=web_address,
    )
    prometheus_queries: str = option(
        "prometheusQueries",
        "",
        "YAML file that maps metric names to PromQL, read again when it changes; a metric that is not in it is asked "
        "for by its name, or node_ and its name",
        metavar="FILE",
    )
    prometheus_node_label: str = option(
        "prometheusNodeLabel",
        "node",
        "the label of a series that has the node's name; a series without it is joined by its `instance`",
        metavar="LABEL",
    )
    prometheus_token_file: str = option(
        "prometheusTokenFile", "", "file with a bearer token for Prometheus", metavar="FILE"
    )
    prometheus_user: str = option(
        "prometheusUser", "", "user for Prometheus, with --prometheusPasswordFile", metavar="NAME"
    )
    prometheus_password_file: str = option(
        "prometheusPasswordFile", "", "file with that user's password", metavar="FILE"
    )
    prometheus_cacert: str = option(
        "prometheusCacert",
        "",
        "the CA that signed Prometheus' certificate; without one the system's are trusted",
        metavar="FILE",
    )

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources by name, the preferred one first."""
        return tuple(dict.fromkeys(",".join(self.metrics_source).split(",")))

    def source_mistakes(self) -> list[str]:
        """What is wrong with these together, each in a sentence."""
        found = []
        named = ",".join(self.metrics_source).split(",")
        if len(named) != len(set(named)):
            found.append("--metricsSource names a source twice")
        if self.source_timeout <= 0:
            found.append("--sourceTimeout must be more than 0")
        wanted = PROMETHEUS in named
        if wanted and not self.prometheus_url:
            found.append("--metricsSource=prometheus needs --prometheusUrl")
        if self.prometheus_url and not wanted:
            found.append("--prometheusUrl is given, but --metricsSource does not name prometheus")
        if bool(self.prometheus_user) != bool(self.prometheus_password_file):
            found.append("--prometheusUser and --prometheusPasswordFile belong together")
        if self.prometheus_user and self.prometheus_token_file:
            found.append("--prometheusUser and --prometheusTokenFile exclude one another")
        return found
