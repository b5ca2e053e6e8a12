"""The custom metrics API: readings of nodes, for HorizontalPodAutoscalers."""

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.http.ports import Port
from evaluator.core.wiring import Wired
from evaluator.features.custom_metrics.metrics import ApiMetrics
from evaluator.features.custom_metrics.options import CustomMetricsOptions
from evaluator.features.custom_metrics.port import CustomMetricsPort
from evaluator.features.custom_metrics.served_metrics import ServedMetrics


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
