from pathlib import Path

import pytest

from collectors import interrupts
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.interrupts import Interrupts, Options, parse
from collectors.shared.formats.patterns import DeviceFilter

PARSERS = {
    "interrupts": lambda text: interrupts.parse(text, DeviceFilter("", ""), zeros=True),
}

SAMPLES = {
    "interrupts": (
        "proc/interrupts",
        lambda t: interrupts.parse(t, DeviceFilter("", ""), zeros=True),
    ),
}


EVERY = DeviceFilter("", "")
# An ARM server: a count that fills its column touches the name, and chip names contain blanks.
ARM = """\
           CPU0       CPU1
 10:2150351003 1201003344     GICv3  27 Level     arch_timer
IPI0:       120        130       Rescheduling interrupts
Err:          0
"""
# CPU 1 is offline and has no column.
OFFLINE = """\
           CPU0       CPU2       CPU3
 LOC:         1          2          3   Local timer interrupts
"""


def test_counts_are_by_line_and_cpu(machine, values) -> None:
    found = values(Interrupts(machine("xeon"), Options()).collect())
    assert len(found) == 6 * 4, "all but ERR and MIS, which are no counts of a CPU"
    nvme = 'type="125",info="IR-PCI-MSIX-0000:65:00.0",devices="0-edge nvme0q0, nvme0q1"'
    assert found[f'node_interrupts_total{{cpu="0",{nvme}}}'] == 120033
    assert found[f'node_interrupts_total{{cpu="1",{nvme}}}'] == 0
    timer = 'type="LOC",info="Local timer interrupts",devices=""'
    assert found[f'node_interrupts_total{{cpu="3",{timer}}}'] == 870120033


def test_arm_lines_are_parsed(values) -> None:
    assert values(parse(ARM, EVERY, zeros=True)) == {
        'node_interrupts_total{cpu="0",type="10",info="GICv3",devices="27 Level arch_timer"}': 2150351003,
        'node_interrupts_total{cpu="1",type="10",info="GICv3",devices="27 Level arch_timer"}': 1201003344,
        'node_interrupts_total{cpu="0",type="IPI0",info="Rescheduling interrupts",devices=""}': 120,
        'node_interrupts_total{cpu="1",type="IPI0",info="Rescheduling interrupts",devices=""}': 130,
    }


def test_cpu_keeps_its_number_while_another_is_offline(values) -> None:
    label = 'type="LOC",info="Local timer interrupts",devices=""'
    assert values(parse(OFFLINE, EVERY, zeros=True)) == {
        f'node_interrupts_total{{cpu="0",{label}}}': 1,
        f'node_interrupts_total{{cpu="2",{label}}}': 2,
        f'node_interrupts_total{{cpu="3",{label}}}': 3,
    }


def test_zeros_can_be_omitted(machine, values) -> None:
    found = values(Interrupts(machine("xeon"), Options(interrupts_zeros=False)).collect())
    assert len([s for s in found if 'type="0"' in s]) == 1
    assert 0 not in found.values()


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        (Options(interrupts_include="^(NMI|LOC);"), {"NMI", "LOC"}),
        (Options(interrupts_include=";nvme|nvme0q1$"), {"125"}),
        (Options(interrupts_exclude="interrupts|edge"), {"MCP"}),
    ],
)
def test_lines_are_chosen_by_type_info_and_devices(machine, values, options, kinds) -> None:
    found = values(Interrupts(machine("xeon"), options).collect())
    assert {series.split('type="')[1].split('"')[0] for series in found} == kinds


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Interrupts(Host(procfs=tmp_path), Options()).collect())


@pytest.mark.parametrize(
    "text", ["", "\n", "CPU0 CPUx\n", "0: 1 timer\n", "CPU0\n 0: x timer\n", "CPU0\n 0: -1 timer\n"]
)  # fmt: skip
def test_invalid_interrupt_table_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="interrupts"):
        list(parse(text, EVERY, zeros=True))
