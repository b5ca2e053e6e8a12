from pathlib import Path

import pytest

from collectors import udp_queues
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.udp_queues import UdpQueues, parse

PARSERS = {
    "udp_queues": lambda text: udp_queues.parse(f"header\n{text}"),
}


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"


def test_bytes_in_all_queues_are_exported(machine, values) -> None:
    assert values(UdpQueues(machine("xeon")).collect()) == {
        'node_udp_queues{queue="tx",ip="v4"}': 0x100,
        'node_udp_queues{queue="rx",ip="v4"}': 0x3400,
        'node_udp_queues{queue="tx",ip="v6"}': 0,
        'node_udp_queues{queue="rx",ip="v6"}': 0xA80,
    }


def test_only_ipv4_is_exported_without_ipv6(machine, values) -> None:
    assert values(UdpQueues(machine("vm2012")).collect()) == {
        'node_udp_queues{queue="tx",ip="v4"}': 0,
        'node_udp_queues{queue="rx",ip="v4"}': 512,
    }


def test_no_socket_is_an_empty_queue() -> None:
    assert parse(HEAD) == (0, 0)


def test_kernel_without_both_families_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(UdpQueues(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "line",
    ["\n", " 5: 0:44 0:0 07\n", " 5: 0:44 0:0 07 00000001\n", " 5: 0:44 0:0 07 x:00000001\n"],
)
def test_invalid_socket_list_is_rejected(line: str) -> None:
    with pytest.raises(CollectorError, match="udp"):
        parse(HEAD + line)
