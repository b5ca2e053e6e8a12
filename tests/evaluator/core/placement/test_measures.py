"""What metrics measure, by their names and the shipped rules."""

import pytest

from evaluator.core.catalog import shipped
from evaluator.core.model.resources import Resource
from evaluator.core.placement.measures import SHORTEST_WINDOW, Load, Measures

MEASURES = Measures(shipped)


@pytest.mark.parametrize(
    ("metric", "resource", "per_unit", "share", "window"),
    [
        ("node_cpu_used_cores", Resource.CPU, 0.001, False, 16),
        ("cpu_used_mean_5m_cores", Resource.CPU, 0.001, False, 316),
        ("node_cpu_utilisation_ratio", Resource.CPU, 1, True, 60),
        ("node_cpu_headroom_ratio", Resource.CPU, -1, True, 60),
        ("node_load5", Resource.CPU, 0.001, False, 300),
        ("node_memory_used_mean_5m_bytes", Resource.MEMORY, 1, False, 300),
        ("node_memory_MemAvailable_bytes", Resource.MEMORY, -1, False, SHORTEST_WINDOW),
        ("memory_headroom_ratio", Resource.MEMORY, -1, True, SHORTEST_WINDOW),
        ("node_gpu_utilisation_ratio", Resource.GPU, 1, True, 60),
        ("node_cpu_usage_percent", Resource.CPU, 100, True, SHORTEST_WINDOW),
        ("cluster_node_cpu_usage_2m_ratio", Resource.CPU, 1, True, 120),
        ("kubelet_running_pods", Resource.PODS, 1, False, SHORTEST_WINDOW),
    ],
)
def test_resource_and_window(metric, resource, per_unit, share, window):
    found = MEASURES.measure_of(metric)
    assert (found.load, found.resource, found.share) == (Load.RESOURCE, resource, share)
    assert (found.per_unit, found.window) == (pytest.approx(per_unit), window)


@pytest.mark.parametrize(
    "metric",
    [
        *("health_metric", "node_hottest_sensor_celsius", "node_memory_corrected_errors_24h"),
        *("node_condition_KernelDeadlock", "node_condition_Hot", "violation_score_ns_web"),
    ],
)
def test_pods_do_not_move_counts_of_errors_levels_temperatures_and_conditions(metric):
    assert MEASURES.measure_of(metric).load is Load.NONE


@pytest.mark.parametrize(
    "metric",
    [
        *("cpu", "m", "_", "node_cpu_used_stddev_5m_cores", "node_pressure_cpu_waiting_60s_ratio"),
        *("node_memory_bandwidth_utilisation_ratio", "node_gpu_memory_headroom_ratio"),
        *(
            "node_filesystem_free_bytes",
            "node_btrfs_used_bytes",
            "free_used_cpu_cores",
            "node_cpu_used_cores:peer_ratio",
        ),
    ],
)
def test_other_metrics_are_unknown(metric):
    assert MEASURES.measure_of(metric).load is Load.UNKNOWN


def test_windows_are_bounded():
    """A policy may name any metric, such as one over 9999 hours."""
    assert MEASURES.measure_of("cpu_used_9999h_cores").window <= 900
