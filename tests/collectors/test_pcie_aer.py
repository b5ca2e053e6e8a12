import pytest

from collectors import pcie_aer
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.pcie_aer import PcieAer, parse

PARSERS = {
    "pcie_aer": pcie_aer.parse,
}


DEVICES = "sys/bus/pci/devices"
CORRECTABLE = """\
RxErr 0
BadTLP 3
BadDLLP 0
Rollover 0
Timeout 12
NonFatalErr 0
CorrIntErr 0
HeaderOF 0
TOTAL_ERR_COR 14
"""
UNCORRECTABLE = """\
Undefined 0
DLP 0
SDES 0
TLP 0
FCP 0
CmpltTO 0
CmpltAbrt 0
UnxCmplt 0
RxOF 0
MalfTLP 0
ECRC 0
UnsupReq 0
ACSViol 0
UncorrIntErr 0
BlockedTLP 0
AtomicOpBlocked 0
TLPBlockedErr 0
PoisonTLPBlocked 0
"""
OF_LINUX_4_19 = """\
Receiver Error 2
Bad TLP 0
RELAY_NUM Rollover 1
Replay Timer Timeout 0
Advisory Non-Fatal 0
TOTAL_ERR_COR 3
"""


def device(name: str, correctable: str = CORRECTABLE) -> dict[str, str]:
    return {
        f"{DEVICES}/{name}/class": "0x010802\n",
        f"{DEVICES}/{name}/aer_dev_correctable": correctable,
        f"{DEVICES}/{name}/aer_dev_nonfatal": f"{UNCORRECTABLE}TOTAL_ERR_NONFATAL 0\n",
        f"{DEVICES}/{name}/aer_dev_fatal": f"{UNCORRECTABLE}TOTAL_ERR_FATAL 0\n",
    }


def root_port(name: str) -> dict[str, str]:
    return {
        **device(name, "RxErr 0\nBadTLP 0\nTOTAL_ERR_COR 0\n"),
        f"{DEVICES}/{name}/aer_rootport_total_err_cor": "15\n",
        f"{DEVICES}/{name}/aer_rootport_total_err_nonfatal": "0\n",
        f"{DEVICES}/{name}/aer_rootport_total_err_fatal": "1\n",
    }


def test_totals_and_occurred_types_are_exported(plant, values) -> None:
    machine = plant(
        {
            **device("0000:01:00.0"),
            **root_port("0000:00:03.1"),
            f"{DEVICES}/0000:00:00.0/class": "0x060000\n",
        }
    )
    errors, at_ports = "node_pcie_aer_errors_total", "node_pcie_aer_rootport_errors_total"
    endpoint, port = 'device="0000:01:00.0"', 'device="0000:00:03.1"'
    assert values(PcieAer(machine).collect()) == {
        f'{errors}{{{endpoint},severity="correctable",type="BadTLP"}}': 3,
        f'{errors}{{{endpoint},severity="correctable",type="Timeout"}}': 12,
        f'{errors}{{{endpoint},severity="correctable",type="total"}}': 14,
        f'{errors}{{{endpoint},severity="nonfatal",type="total"}}': 0,
        f'{errors}{{{endpoint},severity="fatal",type="total"}}': 0,
        f'{errors}{{{port},severity="correctable",type="total"}}': 0,
        f'{errors}{{{port},severity="nonfatal",type="total"}}': 0,
        f'{errors}{{{port},severity="fatal",type="total"}}': 0,
        f'{at_ports}{{{port},severity="correctable"}}': 15,
        f'{at_ports}{{{port},severity="nonfatal"}}': 0,
        f'{at_ports}{{{port},severity="fatal"}}': 1,
    }


def test_counts_continue_while_devices_are_added_and_removed(plant, values, tmp_path) -> None:
    collector = PcieAer(plant(device("0000:01:00.0")))
    list(collector.collect())
    plant(device("0000:01:00.0", "RxErr 1\nTOTAL_ERR_COR 15\n"))
    found = values(collector.collect())
    series = 'node_pcie_aer_errors_total{{device="{}",severity="correctable",type="{}"}}'
    assert found[series.format("0000:01:00.0", "total")] == 15
    assert found[series.format("0000:01:00.0", "RxErr")] == 1
    plant(device("0000:02:00.0", "TOTAL_ERR_COR 2\n"))
    for file in (tmp_path / DEVICES / "0000:01:00.0").iterdir():
        file.unlink()
    (tmp_path / DEVICES / "0000:01:00.0").rmdir()
    found = values(collector.collect())
    assert found[series.format("0000:02:00.0", "total")] == 2
    assert not any("0000:01:00.0" in name for name in found)


def test_types_with_spaces_of_linux_4_19_are_parsed() -> None:
    assert parse(OF_LINUX_4_19) == {"Receiver Error": 2, "RELAY_NUM Rollover": 1, "total": 3}


@pytest.mark.parametrize(
    "files",
    [{}, {f"{DEVICES}/0000:00:00.0/class": "0x060000\n"}],
)
def test_machine_without_aer_is_an_absent_source(plant, files) -> None:
    with pytest.raises(SourceAbsentError):
        list(PcieAer(plant(files)).collect())


@pytest.mark.parametrize(
    "text", ["\n", "RxErr\n", "RxErr -1\n", "RxErr 1.5\n", " 5\n", "a\x00b 1\n"]
)
def test_invalid_line_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="AER"):
        parse(text)


def test_empty_file_exports_nothing() -> None:
    assert parse("") == {}


def test_duplicate_type_is_one_series() -> None:
    assert parse("RxErr 1\nRxErr 2\n") == {"RxErr": 2}
