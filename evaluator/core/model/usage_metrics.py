"""Names of scorers' inputs: series recorded by deploy/rules/usage.yaml, and node annotations that replace them.

A scorer lists the metrics that it needs in `metrics`; agents report them while the scorer is enabled.
"""

WINDOW = 300.0
"""Seconds of the usage window: the means do not fully include pods bound more recently."""

CPU_MEAN = "node_cpu_used_mean_5m_cores"
CPU_DEVIATION = "node_cpu_used_stddev_5m_cores"
MEMORY_MEAN = "node_memory_used_mean_5m_bytes"
MEMORY_DEVIATION = "node_memory_used_stddev_5m_bytes"
CONGESTION = "node_network_congestion_ratio"

METRICS = (CPU_MEAN, CPU_DEVIATION, MEMORY_MEAN, MEMORY_DEVIATION, CONGESTION)
"""All usage metrics."""

MEAN_FREE_CPU = "mean-free-cpu"
"""In milli-CPU, as are the next two."""
STD_FREE_CPU = "std-free-cpu"
FORECAST_FREE_CPU = "forcasted-free-cpu"
"""Misspelt, as written by existing producers."""
MEAN_FREE_MEMORY = "mean-free-memory"
"""In bytes, as are the next two."""
STD_FREE_MEMORY = "std-free-memory"
FORECAST_FREE_MEMORY = "forcasted-free-memory"
CONGESTION_FACTOR = "congestion-factor"

ANNOTATIONS = (
    MEAN_FREE_CPU,
    STD_FREE_CPU,
    FORECAST_FREE_CPU,
    MEAN_FREE_MEMORY,
    STD_FREE_MEMORY,
    FORECAST_FREE_MEMORY,
    CONGESTION_FACTOR,
)
"""The node annotations that are kept, in this order."""
