"""Flags of the sources of readings."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from evaluator.core.policy.limits import MOST_METRICS, MOST_RULES
from evaluator.core.readings.merged import AGENTS, PROMETHEUS
from plimsoll import durations, flags
from plimsoll.flags import option

_NO_URL = "not an http or https URL: write it like http://prometheus.monitoring:9090"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
_OWN_HEADERS = frozenset({"authorization", "host", "content-length", "transfer-encoding"})
CUSTOM_METRICS = "custom-metrics"
SOURCES = (AGENTS, CUSTOM_METRICS, PROMETHEUS)


def sources(text: str) -> str:
    """Return comma-separated names of sources. Raises ValueError."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in SOURCES:
            raise ValueError(f"{name!r} is not one of {', '.join(SOURCES)}")
    return ",".join(names)


def web_address(text: str) -> str:
    """Return an http or https URL without credentials. Raises ValueError.

    The error does not quote the URL, which may contain a password.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_NO_URL) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(_NO_URL)
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("the URL must not have a user, a query or a fragment")
    return text


def header(text: str) -> tuple[str, str]:
    """Return the name and value of an HTTP header, `Name: value`. Raises ValueError."""
    name, colon, value = text.partition(":")
    if not colon or _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
        raise ValueError("not a header: write it like 'X-Scope-OrgID: tenant'")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(
            f"{name} cannot be set: for credentials, use --prometheusTokenFile or --prometheusUser"
        )
    return name, value.strip()


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Sources of readings. Their order of preference, and their connections."""

    metrics_source: tuple[str, ...] = option(
        "metricsSource",
        (AGENTS,),
        f"where readings come from: {', '.join(SOURCES)}; with several (repeatable, or separated by commas), the "
        "first that has a fresh reading of a metric for a node wins",
        metavar="SOURCE",
        parse=sources,
    )
    max_metrics: int = option(
        "maxMetrics",
        MOST_METRICS,
        "maximum number of metrics requested from sources for all policies, divided fairly by namespace, then by policy; the "
        "status of a policy lists its metrics over the limit, and which namespaces use most",
        metavar="N",
        parse=flags.count,
    )
    max_namespace_metrics: int | None = option(
        "maxNamespaceMetrics",
        None,
        "maximum number of metrics requested for the policies of one namespace; without it, --maxMetrics alone",
        metavar="N",
        parse=flags.count,
    )
    max_rules: int = option(
        "maxRules",
        MOST_RULES,
        "maximum number of rules evaluated for all policies, divided fairly by namespace, then by policy; the status of a "
        "policy lists its strategies over the limit, and which namespaces use most",
        metavar="N",
        parse=flags.count,
    )
    max_namespace_rules: int | None = option(
        "maxNamespaceRules",
        None,
        "maximum number of rules evaluated for the policies of one namespace; without it, --maxRules alone",
        metavar="N",
        parse=flags.count,
    )
    source_timeout: float = option(
        "sourceTimeout",
        5.0,
        "timeout of the custom metrics API or Prometheus for one metric",
        metavar="DURATION",
        parse=durations.duration,
    )
    prometheus_url: str = option(
        "prometheusUrl",
        "",
        "base URL of Prometheus, without /api/v1: http://prometheus.monitoring:9090",
        metavar="URL",
        parse=web_address,
    )
    prometheus_queries: str = option(
        "prometheusQueries",
        "",
        "YAML file that maps metric names to PromQL, reloaded when it changes; a metric that is not in it is queried "
        "by its name, or node_ and its name",
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

    prometheus_headers: tuple[tuple[str, str], ...] = option(
        "prometheusHeader",
        (),
        "a header of requests to Prometheus, such as the tenant of Mimir: `X-Scope-OrgID: tenant` (repeatable)",
        metavar="HEADER",
        parse=header,
    )

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources, the preferred one first."""
        return tuple(dict.fromkeys(",".join(self.metrics_source).split(",")))

    def source_mistakes(self) -> list[str]:
        """Return the errors in these settings together, as sentences."""
        errors = []
        names = ",".join(self.metrics_source).split(",")
        if len(names) != len(set(names)):
            errors.append("--metricsSource names a source twice")
        if self.source_timeout <= 0:
            errors.append("--sourceTimeout must be more than 0")
        has_prometheus = PROMETHEUS in names
        if has_prometheus and not self.prometheus_url:
            errors.append("--metricsSource=prometheus needs --prometheusUrl")
        if self.prometheus_url and not has_prometheus:
            errors.append("--prometheusUrl is given, but --metricsSource does not name prometheus")
        if bool(self.prometheus_user) != bool(self.prometheus_password_file):
            errors.append("--prometheusUser and --prometheusPasswordFile belong together")
        if self.prometheus_user and self.prometheus_token_file:
            errors.append("--prometheusUser and --prometheusTokenFile exclude each other")
        return errors
