"""Readings with their units: short, and never equal to a target from which they differ."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.quantity import readable

METRICS = ("node_memory_MemFree_bytes", "node_load1", "node_boot_seconds", "node_cpu_used_cores")


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("node_memory_MemAvailable_bytes", 64 * 2**30, "64 GiB"),
        ("node_memory_MemAvailable_bytes", 21.6 * 2**30, "21.6 GiB"),
        ("node_memory_MemAvailable_bytes", 1023.9999 * 2**20, "1024 MiB"),
        ("node_memory_MemAvailable_bytes", 0.0, "0 B"),
        ("node_memory_MemAvailable_bytes", -2048, "-2 KiB"),
        ("node_network_receive_bytes_total", 5e9, "4.66 GiB"),
        ("node_memory_bandwidth_bytes_per_second", 5 * 2**30, "5 GiB/s"),
        ("node_cpu_used_cores", 2.3, "2.3 cores"),
        ("node_cpu_used_cores", 1, "1 core"),
        ("node_cpu_used_cores", 0.35, "0.35 cores"),
        ("node_hottest_sensor_celsius", 71.54, "71.5 °C"),
        ("node_cpu_scaling_frequency_hertz", 2.4e9, "2.4 GHz"),
        ("node_pressure_cpu_waiting_seconds_total", 5400, "1h30m"),
        ("node_disk_io_time_seconds", 0.0123, "12.3 ms"),
        ("node_disk_io_time_seconds", 12.5, "12.5 s"),
        ("node_timex_offset_seconds", -0.002, "-2 ms"),
        ("node_uptime_seconds", 2 * 86400 + 3 * 3600, "2d3h"),
        ("node_boot_time_seconds", 1_763_164_800, "1763164800"),
        ("node_context_switches_total", 54_388_116.0, "54388116"),
        ("node_load1", 123456.789, "123457"),
        ("node_pressure_cpu_waiting_10s_ratio", 0.87654, "0.877"),
        ("node_load1", 1.2e-7, "1.2e-07"),
        ("node_load1", 3e17, "3e+17"),
        ("node_load1", math.nan, "NaN"),
        ("node_memory_MemFree_bytes", -math.inf, "-Inf"),
        ("", 3.0, "3"),
    ],
)
def test_a_reading_is_written_with_the_unit_of_its_metric(metric, value, text):
    assert readable(metric, value) == text


def test_a_reading_beside_its_target_shows_that_it_differs():
    free = "node_memory_MemAvailable_bytes"
    assert readable(free, 64 * 2**30 - 2**20, target=64 * 2**30) == "63.999 GiB"
    assert readable("node_load1", 6.0004, target=6) == "6.0004"
    assert readable("node_load1", 6.0, target=6) == "6"


@given(st.sampled_from(METRICS), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_different_numbers_are_written_differently(metric, value, target):
    text = readable(metric, value, target=target)
    assert not re.search(r"\de[+-]", text) or abs(value) >= 1e15 or abs(value) < 1e-3
    if "load" in metric and value != target:
        assert text != readable(metric, target, target=value)
    assert len(text) < 40
