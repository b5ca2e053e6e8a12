"""What the agent says about itself: its release, its process, its scrapes, its stream."""

import platform
from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.metrics_core import Metric

from collectors.sample import Family, MetricType, Sample
from plimsoll import VERSION

_TYPES: dict[str, MetricType] = {
    "counter": "counter",
    "gauge": "gauge",
    "histogram": "histogram",
    "summary": "summary",
}


class SelfMetrics:
    """The agent's own registry; `disabled` leaves only the release, as --web.disable-exporter-metrics asks."""

    def __init__(self, *, disabled: bool = False) -> None:
        always = CollectorRegistry()
        self._registry = CollectorRegistry() if disabled else always
        self._shown = always
        release = Gauge(
            "plimsoll_agent_build_info",
            "The release of this agent and what runs it; always 1.",
            ["version", "pythonversion"],
            registry=always,
        )
        release.labels(VERSION, platform.python_version()).set(1)
        self.scrapes = Counter(
            "plimsoll_agent_scrapes",
            "Requests for metrics, by the status they were answered with.",
            ["code"],
            registry=self._registry,
        )
        self.stream_up = Gauge(
            "plimsoll_agent_stream_up",
            "1 while a stream stands to every replica of the evaluator that was found, 0 while one is missing; absent "
            "without --evaluator.address.",
            [],
            registry=None,
        )
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def watch_stream(self) -> None:
        """Export the stream's state from now on: there is going to be one."""
        self._registry.register(self.stream_up)

    def families(self) -> Iterator[Family]:
        """All of it, as it is now."""
        for metric in self._shown.collect():
            yield _family(metric)


def _family(metric: Metric) -> Family:
    """A client library's family as ours: a counter's name ends in _total, and nothing in _created."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    samples = tuple(
        Sample(sample.name, tuple(sample.labels.items()), float(sample.value))
        for sample in metric.samples
        if not sample.name.endswith("_created")
    )
    return Family(name, _TYPES.get(metric.type, "untyped"), metric.documentation, samples)
