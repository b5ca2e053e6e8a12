import re
from collections import Counter

from collectors import registry
from collectors.registry import COLLECTORS


def test_metric_is_found_at_its_collector_and_at_generic_ones() -> None:
    assert registry.collectors_of("node_load1") == {"loadavg", "textfile", "synthetic"}
    assert registry.collectors_of("node_health_metric") == {"textfile", "synthetic"}


def test_rows_are_consistent() -> None:
    rows = list(registry.metrics())
    for _, metric in rows:
        assert metric.help, metric.name
        if metric.type != "untyped":  # some of ethtool's are gauges despite the suffix _total
            assert (metric.type == "counter") == metric.name.endswith("_total"), metric.name
        assert re.sub("<[a-z]+>", "x", metric.name, count=1).isidentifier(), metric.name
        if metric.unit:
            assert metric.name.removesuffix("_total").endswith(metric.unit), metric.name


def test_names_are_unique_except_where_node_exporter_shares_them() -> None:
    counted = Counter(metric.name for _, metric in registry.metrics())
    assert [name for name, count in counted.items() if count > 1] == ["node_cpu_frequency_hertz"]
    assert registry.collectors_of("node_cpu_frequency_hertz") >= {"cpu", "cpufreq"}


def test_every_collector_has_a_table() -> None:
    assert {name for name, _ in registry.metrics()} == set(COLLECTORS)
    assert next(iter(COLLECTORS["loadavg"].metrics)).name == "node_load1"
