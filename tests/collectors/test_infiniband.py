import shutil
from pathlib import Path

import pytest

from collectors import infiniband
from collectors.infiniband import InfiniBand, Options, parse
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError

PARSERS = {
    "infiniband": lambda text: [infiniband.parse("counters/port_rcv_data", text)],
    "infiniband rate": lambda text: [infiniband.parse("rate", text)],
    "infiniband state": lambda text: [infiniband.parse("state", text)],
}


PORT = '{device="mlx5_0",port="1"}'


@pytest.fixture
def mlx5(machine, tmp_path: Path) -> Host:
    """A copy of the machine with an adapter, to be changed."""
    shutil.copytree(machine("xeon").sysfs / "class/infiniband", tmp_path / "class/infiniband")
    return Host(sysfs=tmp_path)


def _files(machine: Host) -> Path:
    return machine.sysfs / "class/infiniband/mlx5_0/ports/1"


def test_state_rate_and_counters_of_a_port_are_exported(machine, values) -> None:
    found = values(InfiniBand(machine("xeon"), Options()).collect())
    info = 'node_infiniband_info{board_id="MT_0000000359",device="mlx5_0",firmware_version="20.39.1002",hca_type="MT4123"}'
    assert found[info] == 1
    expected = {
        "state_id": 4,
        "physical_state_id": 5,
        "rate_bytes_per_second": 25e9,
        "port_data_received_bytes_total": 4 * 770011223344,
        "port_data_transmitted_bytes_total": 4 * 660011223344,
        "port_packets_received_total": 880011223,
        "port_discards_transmitted_total": 12,
        "symbol_error_total": 3,
        "vl15_dropped_total": 0,
        "out_of_sequence_packets_received_total": 41,
        "lifespan_seconds": 0.01,
    }
    assert {name: found[f"node_infiniband_{name}{PORT}"] for name in expected} == expected
    assert not any("to_come" in series for series in found)
    assert f"node_infiniband_port_discards_received_total{PORT}" not in found, "it has no such file"


def test_counters_of_kernels_before_4_5_are_read(mlx5: Host, values) -> None:
    extended = _files(mlx5) / "counters_ext"
    extended.mkdir()
    (extended / "port_rcv_data_64").write_text("1000\n")
    (extended / "port_unicast_xmit_packets").write_text("77\n")
    found = values(InfiniBand(mlx5, Options()).collect())
    assert found[f"node_infiniband_legacy_data_received_bytes_total{PORT}"] == 4000
    assert found[f"node_infiniband_legacy_unicast_packets_transmitted_total{PORT}"] == 77


def test_counter_that_the_firmware_cannot_read_is_absent(mlx5: Host, values) -> None:
    (_files(mlx5) / "counters/link_downed").write_text("N/A (no PMA)\n")
    found = values(InfiniBand(mlx5, Options()).collect())
    assert f"node_infiniband_link_downed_total{PORT}" not in found
    assert f"node_infiniband_symbol_error_total{PORT}" in found


def test_non_numeric_counter_is_left_out(mlx5: Host, values) -> None:
    before = values(InfiniBand(mlx5, Options()).collect())
    (_files(mlx5) / "counters/link_downed").write_text("twice\n")
    found = values(InfiniBand(mlx5, Options()).collect())
    assert before.keys() - found.keys() == {f"node_infiniband_link_downed_total{PORT}"}


def test_adapters_are_added_and_removed(mlx5: Host, values) -> None:
    collector = InfiniBand(mlx5, Options())
    adapters = mlx5.sysfs / "class/infiniband"
    assert len([s for s in values(collector.collect()) if "_info" in s]) == 1
    shutil.copytree(adapters / "mlx5_0", adapters / "mlx5_1")
    assert len([s for s in values(collector.collect()) if "_info" in s]) == 2
    shutil.rmtree(adapters / "mlx5_0")
    assert {s for s in values(collector.collect()) if "mlx5_0" in s} == set()


def test_devices_can_be_excluded(mlx5: Host, values) -> None:
    found = values(InfiniBand(mlx5, Options(infiniband_device_exclude="mlx5")).collect())
    assert found == {}


def test_software_adapter_with_few_files_is_exported(tmp_path: Path, values) -> None:
    (tmp_path / "class/infiniband/rxe0/ports/1").mkdir(parents=True)
    found = values(InfiniBand(Host(sysfs=tmp_path), Options()).collect())
    assert list(found) == [
        'node_infiniband_info{board_id="",device="rxe0",firmware_version="",hca_type=""}'
    ]


def test_machine_without_adapters_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(InfiniBand(Host(sysfs=tmp_path), Options()).collect())


@pytest.mark.parametrize(
    ("file", "text", "value"),
    [
        ("state", "1: DOWN", 1),
        ("rate", "2.5 Gb/sec (1X SDR)", 312_500_000),
        ("rate", "100 Gb/sec (4X EDR)", 12_500_000_000),
        ("counters/symbol_error", "0", 0),
        ("hw_counters/lifespan", "12", 0.012),
        ("counters/port_rcv_data", "N/A (no PMA)", None),
    ],
)
def test_driver_formats_are_parsed(file: str, text: str, value: float | None) -> None:
    assert parse(file, text) == value


@pytest.mark.parametrize(
    ("file", "text"),
    [("state", "ACTIVE"), ("rate", "fast"), ("rate", ""), ("counters/symbol_error", "-1")],
)
def test_invalid_formats_are_rejected(file: str, text: str) -> None:
    with pytest.raises(CollectorError, match=file):
        parse(file, text)
