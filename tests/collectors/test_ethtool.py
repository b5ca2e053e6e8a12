from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Self

import pytest

from collectors import ethtool
from collectors.ethtool import Ethtool, Options, metric_name, sanitized
from collectors.ethtool.driverinfo import Driver, Link, Modes
from collectors.interface.sample import CollectorError, SourceAbsentError

PARSERS = {
    "ethtool": lambda text: ethtool.metric_name(ethtool.sanitized(text)),
}


INTEL = Driver("0000:00:1f.6", "ice", "", "4.40 0x8001c96f", "6.8.0")
COPPER = Modes({"TP", "Autoneg", "Pause", "100baseT/Half", "1000baseT/Full", "10000baseR_FEC"})


@dataclass
class Kernel:
    """Fake drivers with given results; None for all else."""

    drivers: dict[str, Driver] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    counters: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def __call__(self) -> nullcontext[Self]:
        return nullcontext(self)

    def driver(self, device: str) -> Driver | None:
        return self.drivers.get(device)

    def link(self, device: str) -> Link | None:
        return self.links.get(device)

    def statistics(self, device: str) -> list[tuple[str, int]] | None:
        return self.counters.get(device)


@pytest.fixture
def collect(machine, values):
    def run(kernel: Kernel, options: Options | None = None) -> dict[str, float]:
        found = Ethtool(machine("xeon"), options or Options(), connect=kernel).collect()
        series: dict[str, float] = values(found)
        return series

    return run


def test_driver_of_a_device_is_exported(collect) -> None:
    assert collect(Kernel(drivers={"eno1": INTEL})) == {
        'node_ethtool_info{bus_info="0000:00:1f.6",device="eno1",driver="ice",'
        'expansion_rom_version="",firmware_version="4.40 0x8001c96f",version="6.8.0"}': 1
    }


def test_supported_and_advertised_modes_are_exported(collect) -> None:
    offered = Modes({"Autoneg", "1000baseT/Full"})
    found = collect(Kernel(links={"eno1": Link(COPPER, offered, autonegotiates=True)}))
    assert found == {
        'node_network_supported_port_info{device="eno1",type="TP"}': 1,
        'node_network_supported_speed_bytes{device="eno1",duplex="half",mode="100baseT"}': 12.5e6,
        'node_network_supported_speed_bytes{device="eno1",duplex="full",mode="1000baseT"}': 125e6,
        'node_network_supported_speed_bytes{device="eno1",duplex="full",mode="10000baseR_FEC"}': 1.25e9,
        'node_network_autonegotiate_supported{device="eno1"}': 1,
        'node_network_pause_supported{device="eno1"}': 1,
        'node_network_asymmetricpause_supported{device="eno1"}': 0,
        'node_network_advertised_speed_bytes{device="eno1",duplex="full",mode="1000baseT"}': 125e6,
        'node_network_autonegotiate_advertised{device="eno1"}': 1,
        'node_network_pause_advertised{device="eno1"}': 0,
        'node_network_asymmetricpause_advertised{device="eno1"}': 0,
        'node_network_autonegotiate{device="eno1"}': 1,
    }


def test_statistics_have_the_names_of_node_exporter(collect) -> None:
    counters = [
        ("rx_bytes", 5),
        ("port.rx_dropped", 7),
        ("tx_queue_0_packets", 9),
        ("rx0_drops", 1),
    ]
    assert collect(Kernel(counters={"eno1": counters, "cni0": [("rx_bytes", 6)]})) == {
        'node_ethtool_received_bytes_total{device="cni0"}': 6,
        'node_ethtool_received_bytes_total{device="eno1"}': 5,
        'node_ethtool_port_received_dropped{device="eno1"}': 7,
        'node_ethtool_transmitted_queue_0_packets{device="eno1"}': 9,
        'node_ethtool_rx0_drops{device="eno1"}': 1,
    }


def test_help_and_type_are_those_of_node_exporter(machine) -> None:
    kernel = Kernel(counters={"eno1": [("rx_bytes", 5), ("port.rx_dropped", 7)]})
    found = {f.name: f for f in Ethtool(machine("xeon"), Options(), connect=kernel).collect()}
    total = found["node_ethtool_received_bytes_total"]
    assert (total.type, total.help) == ("untyped", "Network interface bytes received")
    dropped = found["node_ethtool_port_received_dropped"]
    assert (dropped.type, dropped.help) == ("untyped", "Network interface port_rx_dropped")


def test_statistics_with_equal_names_are_omitted(collect) -> None:
    counters = [
        ("duplicate metric", 1),
        ("duplicate_metric", 2),
        ("duplicate-metric", 3),
        ("ok", 4),
    ]
    assert collect(Kernel(counters={"eno1": counters})) == {'node_ethtool_ok{device="eno1"}': 4}


@pytest.mark.parametrize("odd", ["", "___", "info", "\n", "{}"])
def test_statistics_without_a_usable_name_are_omitted(odd: str, collect) -> None:
    assert collect(Kernel(counters={"eno1": [(odd, 1), ("ok", 2)]})) == {
        'node_ethtool_ok{device="eno1"}': 2
    }


def test_statistics_and_devices_can_be_chosen(collect) -> None:
    counters = {"eno1": [("rx_bytes", 5), ("rx_x", 1)], "cni0": [("rx_bytes", 6)]}
    options = Options(ethtool_device_include="^eno", ethtool_metrics_include="bytes$")
    assert collect(Kernel(counters=counters), options) == {
        'node_ethtool_received_bytes_total{device="eno1"}': 5
    }


def test_drivers_without_data_export_nothing(collect) -> None:
    assert collect(Kernel()) == {}


@pytest.mark.parametrize(
    ("statistic", "name"),
    [
        ("rx_errors", "received_errors_total"),
        ("rx_missed", "received_missed"),
        ("tx_tx_timeouts", "transmitted_tx_timeouts"),
        ("_RX_Total", "received_total"),
        ("rxq0", "rxq0"),
        ("[3]: rx_ucast", "3_received_ucast"),
    ],
)
def test_names_of_metrics_are_sanitized(statistic: str, name: str) -> None:
    assert metric_name(sanitized(statistic)) == f"node_ethtool_{name}"


def test_unavailable_socket_is_an_error(machine) -> None:
    def refused():
        raise PermissionError(1, "Operation not permitted")

    with pytest.raises(CollectorError, match="not permitted"):
        Ethtool(machine("xeon"), Options(), connect=refused).collect()


def test_missing_library_is_an_absent_source(machine) -> None:
    def absent():
        raise SourceAbsentError("pyroute2 is not installed")

    with pytest.raises(SourceAbsentError, match="pyroute2"):
        Ethtool(machine("xeon"), Options(), connect=absent).collect()
