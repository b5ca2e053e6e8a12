import re

import pytest

from collectors import vmstat
from collectors.interface.sample import CollectorError
from collectors.vmstat import Options, VmStat, parse

PARSERS = {
    "vmstat": lambda text: vmstat.parse(text, re.compile("")),
}


DEFAULT = Options().vmstat_fields


def test_default_fields_are_those_of_node_exporter(machine, values) -> None:
    found = values(VmStat(machine("xeon"), Options()).collect())
    assert found == {
        "node_vmstat_pgpgin": 90021144,
        "node_vmstat_pgpgout": 240112008,
        "node_vmstat_pswpin": 0,
        "node_vmstat_pswpout": 0,
        "node_vmstat_pgfault": 8800123311,
        "node_vmstat_pgmajfault": 20114,
        "node_vmstat_oom_kill": 2,
    }


def test_pattern_may_match_anywhere_in_the_field(machine, values) -> None:
    found = values(VmStat(machine("xeon"), Options(vmstat_fields="unstable$")).collect())
    assert found == {"node_vmstat_nr_unstable": 0}


@pytest.mark.parametrize(
    "text",
    [
        "pgfault\n",
        "pgfault x\n",
        "a-b 1\n",
        "pgfault 1 2\n",
        "\n",
    ],
)
def test_invalid_vmstat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="vmstat"):
        list(parse(text, re.compile(DEFAULT)))


def test_later_reads_yield_current_values_and_notice_changed_lines(plant, values) -> None:
    collector = VmStat(plant({"proc/vmstat": "nr_free 5\npgfault 1\n"}), Options())
    assert values(collector.collect()) == {"node_vmstat_pgfault": 1}
    plant({"proc/vmstat": "nr_free 6\npgfault 2\n"})
    assert values(collector.collect()) == {"node_vmstat_pgfault": 2}
    plant({"proc/vmstat": "oom_kill 3\npgfault 4\n"})
    assert values(collector.collect()) == {"node_vmstat_oom_kill": 3, "node_vmstat_pgfault": 4}


@pytest.mark.parametrize("text", ["nr_free x\npgfault 2\n", "nr_free 1\npgfault\n"])
def test_damage_after_a_good_read_costs_its_line(plant, values, text: str) -> None:
    collector = VmStat(plant({"proc/vmstat": "nr_free 5\npgfault 1\n"}), Options())
    values(collector.collect())
    good = [line for line in text.split("\n") if line == "pgfault 2"]
    for _ in range(2):
        plant({"proc/vmstat": f"{text}oom_kill 3\n"})
        expected = {"node_vmstat_oom_kill": 3, **dict.fromkeys(good and ["node_vmstat_pgfault"], 2)}
        assert values(collector.collect()) == expected
