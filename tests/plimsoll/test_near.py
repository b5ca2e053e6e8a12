"""Suggestions for misspelt names."""

import pytest

from plimsoll.near import NearNames

METRICS = NearNames(
    [
        "health_metric",
        "load1",
        "load15",
        "load5",
        "memory_MemAvailable_bytes",
        "memory_MemFree_bytes",
        "filesystem_avail_bytes",
        "cpu_seconds_total",
    ]
)


@pytest.mark.parametrize(
    ("misspelt", "first"),
    [
        ("health_metrc", "health_metric"),
        ("Health_Metric", "health_metric"),
        ("healthmetric", "health_metric"),
        ("memory_memavailable_bytes", "memory_MemAvailable_bytes"),
        ("MemAvailable_bytes", "memory_MemAvailable_bytes"),
        ("filesytem_avail_bytes", "filesystem_avail_bytes"),
        ("load_1", "load1"),
    ],
)
def test_similar_name_is_suggested_first(misspelt, first):
    assert METRICS.find(misspelt)[0] == first


def test_unrelated_name_has_no_suggestion():
    assert METRICS.find("queue_depth") == []
    assert METRICS.find("") == []
    assert NearNames([]).find("load1") == []


def test_suggestions_are_limited_and_exclude_the_name_itself():
    assert METRICS.find("load5", 2) == ["load15", "load1"]
