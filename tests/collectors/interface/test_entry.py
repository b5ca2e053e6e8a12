import subprocess
import sys
from pathlib import Path

import pytest

from collectors.interface.entry import OnDemand
from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.registry.on_demand import ON_DEMAND

CODE = """
import sys
from collectors.registry import catalog, on_demand
catalog.collectors_of("node_load1")
print(*(name for name in on_demand.ON_DEMAND if f"collectors.{name}" in sys.modules))
"""


def test_collectors_on_demand_are_not_imported_by_the_registry_or_by_other_names() -> None:
    ran = subprocess.run([sys.executable, "-P", "-c", CODE], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("\n", "")


@pytest.mark.parametrize("name", ON_DEMAND)
def test_names_of_all_metrics_begin_with_a_prefix_of_the_entry(name: str) -> None:
    entry = ON_DEMAND[name]
    for metric in entry.metrics:
        assert metric.name.startswith(entry.prefixes)
        assert entry.can_yield(metric.name.replace("<", "").replace(">", ""))


@pytest.mark.parametrize("name", ON_DEMAND)
def test_every_collector_can_be_made(name: str, tmp_path: Path) -> None:
    entry = ON_DEMAND[name]
    made = entry.make(Host(procfs=tmp_path, sysfs=tmp_path), entry.options())
    assert callable(made.collect)


def test_collector_is_made_when_its_source_appears(plant, values, tmp_path: Path) -> None:
    host = plant({})
    softirqs = ON_DEMAND["softirqs"]
    entry = OnDemand(
        module="softirqs",
        name="SoftIrqs",
        about="",
        prefixes=softirqs.prefixes,
        source="<procfs>/softirqs",
    )
    collector = entry.build(host, entry.options())
    with pytest.raises(SourceAbsentError, match="softirqs: not there"):
        collector.collect()
    plant({"proc/softirqs": "  CPU0\nHI: 3\n"})
    expected = {'node_softirqs_functions_total{cpu="0",type="HI"}': 3}
    assert values(collector.collect()) == expected
