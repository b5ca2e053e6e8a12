"""The custom metrics API: readings of nodes, for HorizontalPodAutoscalers."""

import time
from collections.abc import Coroutine
from typing import Any

from evaluator.core import tls
from evaluator.core.access.delegation import DelegatedAccess
from evaluator.core.assembly import Core
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.feature import Feature
from evaluator.core.http.ports import Port
from evaluator.core.kube.client import Kube
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions
from evaluator.core.wiring import Wired
from evaluator.features.custom_metrics.api import ApiMetrics, CustomMetricsApi
from evaluator.features.custom_metrics.lists import MetricLists, PodsByNamespace
from evaluator.features.custom_metrics.options import CustomMetricsOptions, ServedMetrics
from evaluator.features.custom_metrics.readings import Columns, CurrentReadings
from evaluator.features.custom_metrics.requests import attributes_of
from plimsoll.http.limits import Limits
from plimsoll.http.server import Server

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
    ) -> None:
        """Reads the certificate. Raises TlsError."""
        self._access = DelegatedAccess(api, metrics)
        self._decider = decider
        self._pods = pods
        by_namespace = PodsByNamespace()
        pods.listeners.append(by_namespace.change)
        current = CurrentReadings(
            readings,
            cluster.node_names,
            decider.newest,
            clock=time.monotonic,
            wall=time.time,
            derived=derived,
        )
        handler = CustomMetricsApi(
            MetricLists(
                current,
                cluster,
                by_namespace,
                left_out=own_metrics.custom_metrics_left_out.inc,
                clock=time.monotonic,
            ),
            own_metrics,
            served=served.listed,
            missing=self._missing,
            unready=self._unready,
        )
        guard = self._access.guard(_TLS.name, front_proxy=True)
        certificates = tls.rotation(
            tls.Files(options.cert, options.key, None),
            port=_TLS,
            client_ca=self._access.front_proxy.client_ca,
            on_change=metrics.reloaded(_TLS.name),
        )
        self.server = Server(
            guard.protect(handler.answer, attributes_of, handler.refuse),
            refuse=handler.refuse,
            limits=LIMITS,
            tls=certificates.current,
        )
        self._access.front_proxy.listeners.append(self.server.drain)

    def run(self) -> Coroutine[Any, Any, None]:
        """Watch the configuration of the front proxy until cancelled."""
        return self._access.run()

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
    core.loop.extra = served
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
    )
    return Wired(
        ports=[Port("custom-metrics", port.server, options.custom_metrics_port, secured=True)],
        loops=[port.run],
    )


FEATURE = Feature(
    name="custom_metrics", options=CustomMetricsOptions, metrics=ApiMetrics, wire=wire
)
