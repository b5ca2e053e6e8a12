import re
from collections import Counter

import pytest

from collectors import cpu, dmi, loadavg, meminfo, registry, vmstat
from collectors.interface.metric import UncataloguedError
from collectors.registry import COLLECTORS


def test_exact_name_precedes_a_template() -> None:
    exact = meminfo.METRICS.find("node_memory_MemFree_bytes")
    assert exact is not None
    assert exact.name == "node_memory_MemFree_bytes"
    assert exact.node_exporter
    newer = meminfo.METRICS.find("node_memory_SomethingNew_bytes")
    assert newer is not None
    assert newer.name == "node_memory_<field>_bytes"
    assert newer.unit == "bytes"
    assert not newer.node_exporter


def test_template_completes_its_help() -> None:
    family = vmstat.METRICS.single("node_vmstat_oom_kill", 2)
    assert family.help == "/proc/vmstat information field oom_kill."
    assert family.type == "untyped"


@pytest.mark.parametrize(
    "name", ["node_unheard_of", "node_vmstat_", "node_vmstat_a-b", "node_load1"]
)
def test_name_outside_its_table_cannot_be_emitted(name: str) -> None:
    assert vmstat.METRICS.find(name) is None
    with pytest.raises(UncataloguedError):
        vmstat.METRICS.single(name, 1)


def test_labels_must_match_the_table() -> None:
    with pytest.raises(UncataloguedError):
        cpu.METRICS.family("node_cpu_seconds_total", [(("0",), 1.0)])


def test_info_labels_are_those_present_in_table_order() -> None:
    rows = [{"system_vendor": "Acme", "bios_date": ""}, {}]
    family = dmi.METRICS.facts("node_dmi_info", rows)
    assert [sample.labels for sample in family.samples] == [
        (("bios_date", ""), ("system_vendor", "Acme")),
        (),
    ]
    assert {sample.value for sample in family.samples} == {1.0}
    with pytest.raises(UncataloguedError):
        dmi.METRICS.facts("node_dmi_info", [{"chassis_type": "23"}])


def test_single_sample_belongs_to_a_metric_without_labels() -> None:
    with pytest.raises(UncataloguedError):
        cpu.METRICS.single("node_cpu_seconds_total", 1)


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
    assert next(iter(loadavg.METRICS)).name == "node_load1"
