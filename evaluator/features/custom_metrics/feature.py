"""The custom metrics API: readings of nodes, for HorizontalPodAutoscalers; its flags, and the metrics that they select."""

import re
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.core import tls
from evaluator.core.access.guard import DelegatedAccess
from evaluator.core.assembly import Core
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.feature import Feature
from evaluator.core.http.ports import Port
from evaluator.core.isolation import Part
from evaluator.core.kube.client import Kube
from evaluator.core.loop.loop import DecisionLoop, DecisionParts
from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions, FeatureOptions
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.signals import FrontProxyChanged, PodChanged, Publish, Reaction, on, wakes
from evaluator.core.wiring import Wired
from evaluator.features.custom_metrics.api import ApiMetrics, CustomMetricsApi, attributes_of
from evaluator.features.custom_metrics.lists import MetricLists, PodsByNamespace
from evaluator.features.custom_metrics.readings import Columns, CurrentReadings
from plimsoll import flags
from plimsoll.flags import option
from plimsoll.http.limits import Limits
from plimsoll.http.server import Server
from wire.patterns import EVERY, MOST, Patterns

_PATTERN = re.compile(r"[a-zA-Z_:*][a-zA-Z0-9_:*]{0,199}", re.ASCII)
_MOST_FOUND = 1000
"""Names of agents that are kept: thousands of agents may report different ones."""
_TLS = tls.Port(
    "custom-metrics", "--cert", "or do not serve the custom metrics API (--customMetricsPort=0)"
)
LIMITS = Limits(
    body_bytes=0,
    bodies_bytes=0,
    connections=128,
    sending=32,
    header_bytes=64 << 10,
    header_fields=1000,
)
"""No request has a body. The front proxy sends one header field for each group of the user."""


def patterns(text: str) -> str:
    """Return comma-separated metric names in which `*` stands for any characters. Raises ValueError."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not _PATTERN.fullmatch(name):
            raise ValueError(
                f"{name!r} is not the name of a metric, or a pattern such as node_pressure_*"
            )
    return ",".join(names)


@dataclass(frozen=True, kw_only=True)
class CustomMetricsOptions(FeatureOptions):
    """The custom metrics API."""

    custom_metrics_port: int = option(
        "customMetricsPort",
        0,
        "port of the custom metrics API (custom.metrics.k8s.io) for kube-apiserver's aggregation layer, over TLS with --cert "
        "and --key; 0: not served",
        metavar="PORT",
        parse=flags.port,
    )
    serve_metrics: tuple[str, ...] = option(
        "serveMetrics",
        (),
        "metrics that the custom metrics API serves beside those that policies name, such as node_load1 or node_pressure_*; "
        "repeatable, or separated by commas",
        metavar="PATTERN",
        parse=patterns,
    )

    @property
    def served_patterns(self) -> tuple[str, ...]:
        """The patterns of --serveMetrics without duplicates, in the order given."""
        return tuple(
            dict.fromkeys(name for given in self.serve_metrics for name in given.split(","))
        )

    def ports(self) -> Mapping[int, str]:
        """Return the port of the custom metrics API."""
        return {self.custom_metrics_port: "--customMetricsPort"}

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterator[str]:
        """Yield problems with these settings, each as a sentence. `taken`: the flag of each port in use."""
        if self.serve_metrics and not self.custom_metrics_port:
            yield "--serveMetrics requires --customMetricsPort"
        for name in sorted(vocabulary.derived.intersection(self.served_patterns)):
            yield f"--serveMetrics: {name} is derived, not measured on nodes: it is served if a policy names it"
        if len(self.served_patterns) > MOST:
            yield f"--serveMetrics: at most {MOST} names and patterns"
        if self.custom_metrics_port and self.custom_metrics_port in taken:
            yield (
                f"--customMetricsPort: {self.custom_metrics_port} is the port of "
                f"{taken[self.custom_metrics_port]}"
            )


class ServedMetrics:
    """Names of metrics. `patterns` may contain `*`; `conditions` returns the metrics of nodes' conditions.

    A pattern stands for the metrics that agents report to match it, and for node conditions.
    """

    def __init__(
        self,
        patterns: Sequence[str] = (),
        *,
        conditions: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._exact = frozenset(name for name in patterns if EVERY not in name)
        self.patterns = tuple(name for name in patterns if EVERY in name)
        """Those with `*`, for agents to match."""
        self._matching = Patterns(self.patterns)
        self._conditions = conditions
        self._found = frozenset[str]()
        self.names: tuple[str, ...] | None = None
        """The served metrics, sorted; the same object while they are the same. None before the first decision."""

    @property
    def wanted(self) -> frozenset[str]:
        """The metrics to request from sources beside those of policies."""
        if not self.patterns:
            return self._exact
        return self._exact.union(self._found, filter(self._matching.matches, self._conditions()))

    def found(self, names: Iterable[str]) -> bool:
        """Add names of an agent that match the patterns; returns whether one is new."""
        new = [name for name in names if name not in self._found and self._matching.matches(name)]
        del new[_MOST_FOUND - len(self._found) :]
        self._found = self._found.union(new)
        return bool(new)

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        """Set the names: the metrics of policies, and those that are wanted; those that are `left_out` have no readings."""
        names = tuple(sorted(self.wanted.union(*of_policies).difference(left_out)))
        if names != self.names:
            self.names = names


class CustomMetricsPort:
    """The server of the custom metrics API. `run()` must run while it serves."""

    def __init__(
        self,
        options: CoreOptions,
        api: Kube,
        metrics: Metrics,
        own_metrics: ApiMetrics,
        *,
        cluster: ClusterCache,
        pods: PodCache,
        decider: DecisionLoop,
        readings: Columns,
        served: ServedMetrics,
        derived: frozenset[str],
        publish: Publish,
        part: Part,
    ) -> None:
        """Reads the certificate. Raises TlsError."""
        self._access = DelegatedAccess(api, metrics, publish, part)
        self._decider = decider
        self._pods = pods
        self._by_namespace = PodsByNamespace()
        current = CurrentReadings(
            readings,
            lambda: cluster.names,
            lambda: decider.latest,
            clock=time.monotonic,
            wall=time.time,
            derived=derived,
        )
        handler = CustomMetricsApi(
            MetricLists(
                current,
                cluster,
                self._by_namespace,
                left_out=own_metrics.custom_metrics_left_out.inc,
                clock=time.monotonic,
            ),
            own_metrics,
            served=lambda: served.names,
            missing=self._missing,
            unready=self._unready,
        )
        guard = self._access.guard(_TLS.name, front_proxy=True)
        certificates = tls.rotation(
            tls.Files(options.cert, options.key, None),
            port=_TLS,
            client_ca=self._access.front_proxy.client_ca,
            on_change=metrics.reloaded(_TLS.name),
            on_load=metrics.expires(_TLS.name),
        )
        self.server = Server(
            guard.protect(handler.answer, attributes_of, handler.refuse),
            refuse=handler.refuse,
            limits=LIMITS,
            tls=certificates.current,
        )

    def run(self) -> Coroutine[Any, Any, None]:
        """Watch the configuration of the front proxy until cancelled."""
        return self._access.run()

    def reactions(self) -> tuple[Reaction, ...]:
        """Return what keeps the lists of pods and the connections up to date."""
        return (
            on(PodChanged, self._by_namespace.change),
            *wakes(self.server.drain, FrontProxyChanged),
        )

    def _missing(self) -> list[str]:
        return [*self._decider.missing, *([] if self._pods.synced else ["all pods"])]

    def _unready(self) -> list[str]:
        unknown = (
            [] if self._access.front_proxy.synced else ["the configuration of the front proxy"]
        )
        return [*self._decider.stopping, *unknown]


def wire(core: Core, options: CustomMetricsOptions) -> Wired:
    """Serve the API with --customMetricsPort."""
    metrics = ApiMetrics(core.metrics.registry)
    if not options.custom_metrics_port:
        return Wired()
    served = ServedMetrics(options.served_patterns, conditions=core.conditions.names)
    port = CustomMetricsPort(
        core.options,
        core.api,
        core.metrics,
        metrics,
        cluster=core.cluster,
        pods=core.all_pods.require(labels=True),
        decider=core.loop,
        readings=core.readings,
        served=served,
        derived=core.vocabulary.derived,
        publish=core.signals.publish,
        part=core.isolation.part("watch of the front proxy"),
    )
    return Wired(
        reacts=port.reactions(),
        decides=[DecisionParts(extra=served)],
        ports=[Port("custom-metrics", port.server, options.custom_metrics_port, secured=True)],
        loops=[port.run],
    )


FEATURE = Feature(
    name="custom_metrics", options=CustomMetricsOptions, metrics=ApiMetrics, wire=wire
)
