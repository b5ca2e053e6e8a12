import json
import subprocess
import sys
from pathlib import Path

import pytest

from collectors import registry
from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.registry import COLLECTORS
from collectors.registry.registered import Registered, load

LOADED = """
loaded = {name for name in registry.available() if f"collectors.{name}" in sys.modules}
print(json.dumps(sorted(loaded)))
"""
PARSED = """
import json, sys
from collectors import registry
from agent import config
"""


def loaded(code: str) -> set[str]:
    """Return the collectors that are imported after this code has run in a new process."""
    command = [sys.executable, "-P", "-c", PARSED + code + LOADED]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stderr == ""
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_reading_the_command_line_imports_no_collector() -> None:
    assert loaded("config.parse([], {}, hostname='a')") == set()


def test_look_up_of_a_metric_imports_only_collectors_with_such_names() -> None:
    assert loaded("registry.collectors_of('node_load1')") == {"loadavg"}


@pytest.mark.parametrize("flag", ["collector.xfrm", "collector.ntp.server-port=124"])
def test_flag_imports_only_its_collector(flag: str) -> None:
    assert loaded(f"config.parse(['--{flag}'], {{}}, hostname='a')") <= {"ntp"}


def test_disabled_collectors_and_those_without_a_source_are_not_imported(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError
root = Path({str(tmp_path)!r})
host = Host(procfs=root, sysfs=root)
settings = config.parse(["--no-collector.edac", "--collector.buddyinfo"], {{}}, hostname="a")
for collector in registry.build(host, settings.collectors).values():
    try:
        list(collector.collect())
    except CollectorError:
        pass
"""
    expected = {name for name, entry in COLLECTORS.items() if entry.on and not entry.source}
    assert loaded(code) == expected - {"edac"} | {"buddyinfo"}


@pytest.mark.parametrize("name", COLLECTORS)
def test_names_of_all_metrics_begin_with_a_prefix(name: str) -> None:
    entry = COLLECTORS[name]
    for metric in entry.metrics:
        assert metric.name.startswith(entry.prefixes)
        assert entry.can_yield(metric.name.replace("<", "").replace(">", ""))


@pytest.mark.parametrize("name", COLLECTORS)
def test_every_collector_can_be_made(name: str, tmp_path: Path) -> None:
    entry = COLLECTORS[name]
    made = entry.make(Host(procfs=tmp_path, sysfs=tmp_path), entry.options())
    assert callable(made.collect)


def test_collector_is_made_when_its_source_appears(plant, values) -> None:
    host = plant({})
    entry = Registered(name="softirqs", about="", source="<procfs>/softirqs")
    collector = entry.build(host, entry.options())
    with pytest.raises(SourceAbsentError, match="softirqs: not there"):
        collector.collect()
    plant({"proc/softirqs": "  CPU0\nHI: 3\n"})
    expected = {'node_softirqs_functions_total{cpu="0",type="HI"}': 3}
    assert values(collector.collect()) == expected


def test_module_without_an_entry_is_named() -> None:
    with pytest.raises(TypeError, match=r"collectors\.shared: ENTRY is missing"):
        load("shared")


def test_open_ended_collectors_run_last_and_those_that_are_opt_in_after_the_others() -> None:
    names = list(COLLECTORS)
    assert names == [*sorted(names[:-2]), "textfile", "synthetic"]
    assert list(registry.entries()) == names
