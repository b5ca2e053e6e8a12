import pytest

from collectors.interface.metric import Metric, Table, UncataloguedError

TABLE = Table(
    Metric("node_memory_MemFree_bytes", "gauge", "Free.", "<procfs>/meminfo", unit="bytes"),
    Metric(
        "node_memory_<field>_bytes",
        "gauge",
        "Memory information field <field>_bytes.",
        "<procfs>/meminfo",
        unit="bytes",
        node_exporter=False,
    ),
    Metric(
        "node_vmstat_<field>",
        "untyped",
        "/proc/vmstat information field <field>.",
        "<procfs>/vmstat",
    ),
    Metric("node_cpu_seconds_total", "counter", "Seconds.", "<procfs>/stat", ("cpu", "mode")),
    Metric(
        "node_dmi_info", "gauge", "Vendor.", "<sysfs>/class/dmi", ("bios_date", "system_vendor")
    ),
)


def test_exact_name_precedes_a_template() -> None:
    exact = TABLE.find("node_memory_MemFree_bytes")
    assert exact is not None
    assert exact.name == "node_memory_MemFree_bytes"
    assert exact.node_exporter
    newer = TABLE.find("node_memory_SomethingNew_bytes")
    assert newer is not None
    assert newer.name == "node_memory_<field>_bytes"
    assert newer.unit == "bytes"
    assert not newer.node_exporter


def test_template_completes_its_help() -> None:
    family = TABLE.single("node_vmstat_oom_kill", 2)
    assert family.help == "/proc/vmstat information field oom_kill."
    assert family.type == "untyped"


@pytest.mark.parametrize(
    "name", ["node_unheard_of", "node_vmstat_", "node_vmstat_a-b", "node_load1"]
)
def test_name_outside_its_table_cannot_be_emitted(name: str) -> None:
    assert TABLE.find(name) is None
    with pytest.raises(UncataloguedError):
        TABLE.single(name, 1)


def test_labels_must_match_the_table() -> None:
    with pytest.raises(UncataloguedError):
        TABLE.family("node_cpu_seconds_total", [(("0",), 1.0)])


def test_info_labels_are_those_present_in_table_order() -> None:
    rows = [{"system_vendor": "Acme", "bios_date": ""}, {}]
    family = TABLE.facts("node_dmi_info", rows)
    assert [sample.labels for sample in family.samples] == [
        (("bios_date", ""), ("system_vendor", "Acme")),
        (),
    ]
    assert {sample.value for sample in family.samples} == {1.0}
    with pytest.raises(UncataloguedError):
        TABLE.facts("node_dmi_info", [{"chassis_type": "23"}])


def test_single_sample_belongs_to_a_metric_without_labels() -> None:
    with pytest.raises(UncataloguedError):
        TABLE.single("node_cpu_seconds_total", 1)
