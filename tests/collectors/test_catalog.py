import re

import pytest

from collectors import catalog, registry
from collectors.catalog import METRICS, UncataloguedError


def test_an_exact_name_goes_before_a_template() -> None:
    exact = catalog.find("node_memory_MemFree_bytes")
    assert exact is not None
    assert exact.name == "node_memory_MemFree_bytes"
    assert exact.node_exporter
    newer = catalog.find("node_memory_SomethingNew_bytes")
    assert newer is not None
    assert newer.name == "node_memory_<field>_bytes"
    assert newer.unit == "bytes"
    assert not newer.node_exporter


def test_a_template_fills_in_its_help() -> None:
    family = catalog.single("node_vmstat_oom_kill", 2)
    assert family.help == "/proc/vmstat information field oom_kill."
    assert family.type == "untyped"


@pytest.mark.parametrize(
    "name", ["node_unheard_of", "node_vmstat_", "node_vmstat_a-b", "node_load1_x"]
)
def test_a_name_outside_the_catalog_cannot_be_emitted(name: str) -> None:
    assert catalog.find(name) is None
    with pytest.raises(UncataloguedError):
        catalog.single(name, 1)


def test_labels_have_to_be_those_of_the_catalog() -> None:
    with pytest.raises(UncataloguedError):
        catalog.family("node_cpu_seconds_total", [(("0",), 1.0)])


def test_rows_are_consistent() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert metric.collector in {*registry.COLLECTORS, catalog.AGENT}, metric.name
        assert metric.help, metric.name
        assert (metric.type == "counter") == metric.name.endswith("_total"), metric.name
        assert re.sub("<[a-z]+>", "x", metric.name, count=1).isidentifier(), metric.name
        if metric.unit:
            assert metric.name.removesuffix("_total").endswith(metric.unit), metric.name


def test_every_collector_is_in_the_catalog() -> None:
    assert {metric.collector for metric in METRICS} == {*registry.COLLECTORS, catalog.AGENT}
