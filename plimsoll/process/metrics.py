"""Standard process metrics (`process_*`, `python_*`) for a Prometheus registry, read by psutil.

Metric names: https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics. Used by the evaluator and the
sandbox. The agent does not import this module: see `agent.scrape.self_metrics`.
"""

from collections.abc import Iterator

import psutil
from prometheus_client import CollectorRegistry, GCCollector, Metric, PlatformCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


class ProcessCollector(Collector):
    """Metrics of one process; by default the current one. Yields nothing once the process is gone."""

    def __init__(self, pid: int | None = None) -> None:
        """Create the metrics of a process. Raises psutil.NoSuchProcess if there is no process `pid`."""
        self._process = psutil.Process(pid)

    def collect(self) -> Iterator[Metric]:
        """Read the process once and yield its metrics."""
        process = self._process
        try:
            with process.oneshot():
                cpu = process.cpu_times()
                memory = process.memory_info()
                open_fds = process.num_fds()
                started = process.create_time()
            max_fds = process.rlimit(psutil.RLIMIT_NOFILE)[0]
        except psutil.Error:
            return
        yield CounterMetricFamily(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            value=cpu.user + cpu.system,
        )
        for name, text, value in (
            ("virtual_memory_bytes", "Virtual memory size in bytes.", memory.vms),
            ("resident_memory_bytes", "Resident memory size in bytes.", memory.rss),
            ("open_fds", "Number of open file descriptors.", open_fds),
            ("max_fds", "Maximum number of open file descriptors.", max_fds),
            (
                "start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
                started,
            ),
        ):
            yield GaugeMetricFamily(f"process_{name}", text, value=value)


def register(registry: CollectorRegistry) -> None:
    """Add the metrics of the current process and of its Python interpreter to a registry."""
    registry.register(ProcessCollector())
    PlatformCollector(registry)
    GCCollector(registry)
