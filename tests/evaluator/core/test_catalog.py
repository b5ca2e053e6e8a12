"""The catalog of shipped metrics: names, kinds, and names similar to misspelt ones."""

import math

import pytest

from evaluator.core.catalog import shipped


@pytest.mark.parametrize("prefix", ["", "node_"])
def test_prefix_is_optional(prefix):
    assert shipped().find(f"{prefix}load1").name == "node_load1"
    assert shipped().find(f"{prefix}memory_MemAvailable_bytes").type == "gauge"
    assert shipped().find("DCGM_FI_DEV_GPU_UTIL").origin == "collector gpu"
    assert shipped().find(f"{prefix}vmstat_no_such_field") is None


def test_metric_of_the_kernels_making_is_possible():
    assert shipped().possible("vmstat_no_such_field")
    assert not shipped().possible("no_such_metric")


@pytest.mark.parametrize(
    ("metric", "several"),
    [
        ("load1", False),
        ("filesystem_avail_bytes", True),
        ("cpu_seconds_total", True),
        ("time_zone_offset_seconds", False),
        ("os_version", False),
        ("health_metric", False),
        ("health_rule_level", True),
        ("cpu_utilisation_ratio", False),
    ],
)
def test_catalog_knows_which_metrics_have_several_series(metric, several):
    assert shipped().find(metric).several is several


@pytest.mark.parametrize(
    ("metric", "bounds"),
    [
        ("cpu_utilisation_ratio", (0, 1)),
        ("drm_gpu_busy_percent", (0, 100)),
        ("health_metric", (0, 2)),
        ("load1", (-math.inf, math.inf)),
    ],
)
def test_range_follows_from_the_unit(metric, bounds):
    assert shipped().find(metric).range == bounds


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("health_metrc", "health_metric"),
        ("node_health_metrc", "node_health_metric"),
        ("memory_MemAvailable_byte", "memory_MemAvailable_bytes"),
        ("filesystem_avail_byte", "filesystem_avail_bytes"),
        ("cpu_utilization_ratio", "cpu_utilisation_ratio"),
        ("load_1", "load1"),
        ("mem_available_bytes", "memory_MemAvailable_bytes"),
    ],
)
def test_misspelt_metric_has_a_similar_name(misspelt, meant):
    assert shipped().find(misspelt) is None
    assert shipped().similar(misspelt)[0] == meant


def test_other_field_of_the_kernel_is_no_misspelling():
    for metric in (
        "vmstat_pgscan_direct",
        "netstat_TcpExt_TCPLossProbes",
        "memory_FileHugePages_bytes",
    ):
        assert shipped().possible(metric)
        assert shipped().similar(metric) == []
