import pytest

from collectors import machine_check
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.machine_check import MachineCheck, parse

PARSERS = {
    "machine_check": machine_check.parse,
}


SERVER = """\
            CPU0       CPU1       CPU2       CPU3
   0:         36          0          0          0  IR-IO-APIC    2-edge      timer
  24:          0          0          0          0  PCIe PME, MCE:x   0-edge
 NMI:         12         10         11          9   Non-maskable interrupts
 LOC:  882219442  880122001  870233456  862344567   Local timer interrupts
 TRM:      39489      39489      39489      39489   Thermal event interrupts
 THR:          2          0          0          1   Threshold APIC interrupts
 DFR:          0          3          0          0   Deferred Error APIC interrupts
 MCE:          1          1          1          1   Machine check exceptions
 MCP:       6132       6132       6133       6132   Machine check polls
 ERR:          0
 MIS:          0
 PIN:          0          0          0          0   Posted-interrupt notification event
"""
LAPTOP = """\
           CPU0       CPU1
MCE:          0          0   Machine check exceptions
MCP:       1417       1418   Machine check polls
"""
VIRTUAL = """\
           CPU0
 TRM:          0   Thermal event interrupts
 ERR:          0
"""
ARM = """\
           CPU0       CPU1
 11:     145678     132111     GICv3  27 Level     arch_timer
IPI0:      9912       8812       Rescheduling interrupts
Err:          0
"""


def test_counts_are_summed_over_cpus(plant, values) -> None:
    assert values(MachineCheck(plant({"proc/interrupts": SERVER})).collect()) == {
        "node_machine_check_exceptions_total": 4,
        "node_machine_check_polls_total": 24529,
        "node_machine_check_threshold_interrupts_total": 3,
        "node_machine_check_deferred_error_interrupts_total": 3,
        "node_machine_check_thermal_interrupts_total": 157956,
    }


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (SERVER, {"MCE", "MCP", "THR", "DFR", "TRM"}),
        (LAPTOP, {"MCE", "MCP"}),
        (VIRTUAL, {"TRM"}),
        (ARM, set()),
    ],
)
def test_missing_rows_are_absent(text: str, rows: set[str]) -> None:
    assert set(parse(text)) == rows


def test_offline_cpu_does_not_reduce_a_count(plant, values) -> None:
    collector = MachineCheck(plant({"proc/interrupts": LAPTOP}))
    assert values(collector.collect())["node_machine_check_polls_total"] == 2835
    plant(
        {"proc/interrupts": "           CPU1\nMCE: 0   Machine\nMCP: 1420   Machine check polls\n"}
    )
    assert values(collector.collect())["node_machine_check_polls_total"] == 2837


def test_other_architectures_are_probed_once(plant) -> None:
    collector = MachineCheck(plant({"proc/interrupts": ARM}))
    for text in (ARM, LAPTOP):
        plant({"proc/interrupts": text})
        with pytest.raises(SourceAbsentError):
            list(collector.collect())


def test_missing_file_is_an_absent_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(MachineCheck(plant({})).collect())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "MCE: 1\n",
        "CPU0 CPU1\nMCE: 1\n",
        "CPU0\nMCE: -1\n",
        "CPUx\nMCE: 1\n",
        "CPU0\nMCE:",
    ],
)
def test_invalid_interrupt_table_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="interrupts"):
        parse(text)
