"""The listener of the custom metrics API as the flags configure it: certificate, access, limits and handler."""

import time
from collections.abc import Coroutine, Iterator
from typing import Any

from evaluator.config import Settings
from evaluator.core.access.delegation import DelegatedAccess
from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.cache.pods import PodCache
from evaluator.core.kube.client import Kube
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.metrics import Metrics
from evaluator.core.tls import server as tls
from evaluator.features.custom_metrics.api import CustomMetricsApi
from evaluator.features.custom_metrics.lists import MetricLists
from evaluator.features.custom_metrics.pods_by_namespace import PodsByNamespace
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
        settings: Settings,
        api: Kube,
        metrics: Metrics,
        *,
        cluster: ClusterCache,
        pods: PodCache,
        decider: DecisionLoop,
        readings: Columns,
    ) -> None:
        """Reads the certificate. Raises TlsError."""
        self._access = DelegatedAccess(api, metrics)
        self._decider = decider
        self._pods = pods
        by_namespace = PodsByNamespace()
        pods.listeners.append(by_namespace.change)
        current = CurrentReadings(
            readings,
            lambda: cluster.names,
            lambda: decider.latest,
            clock=time.monotonic,
            wall=time.time,
        )
        handler = CustomMetricsApi(
            MetricLists(
                current,
                cluster,
                by_namespace,
                left_out=metrics.custom_metrics_left_out.inc,
                clock=time.monotonic,
            ),
            metrics,
            served=lambda: decider.served.names,
            missing=lambda: [*self._missing()],
            unready=lambda: [*self._unready()],
        )
        guard = self._access.guard(_TLS.name, front_proxy=True)
        certificates = tls.rotation(
            tls.Files(settings.cert, settings.key, None),
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

    def _missing(self) -> Iterator[str]:
        yield from self._decider.missing
        if not self._pods.synced:
            yield "all pods"

    def _unready(self) -> Iterator[str]:
        yield from self._decider.stopping
        if not self._access.front_proxy.synced:
            yield "the configuration of the front proxy"
