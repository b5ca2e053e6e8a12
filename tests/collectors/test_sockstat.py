from pathlib import Path

import pytest

from collectors import sockstat
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.sockstat import SockStat, parse

PARSERS = {
    "sockstat": lambda text: sockstat.parse(text, page_size=4096),
    "sockstat numbers": lambda text: sockstat.parse(f"TCP: inuse {text}", page_size=4096),
}


def test_sockets_of_both_families_are_exported(machine, values) -> None:
    found = values(SockStat(machine("xeon")).collect())
    assert found["node_sockstat_sockets_used"] == 1877
    assert found["node_sockstat_TCP_tw"] == 88
    assert found["node_sockstat_TCP6_inuse"] == 57
    assert found["node_sockstat_FRAG_memory"] == 4352
    assert len(found) == 20


def test_memory_in_pages_is_exported_in_bytes_too(values) -> None:
    found = values(parse("TCP: inuse 1 mem 3\nUDP: inuse 1 mem 2\n", page_size=65536))
    assert found == {
        "node_sockstat_TCP_inuse": 1,
        "node_sockstat_TCP_mem": 3,
        "node_sockstat_TCP_mem_bytes": 196608,
        "node_sockstat_UDP_inuse": 1,
        "node_sockstat_UDP_mem": 2,
        "node_sockstat_UDP_mem_bytes": 131072,
    }


def test_value_missing_in_an_old_kernel_is_absent(machine, values) -> None:
    found = values(SockStat(machine("vm2012")).collect())
    assert found["node_sockstat_UDP_inuse"] == 4
    assert "node_sockstat_UDP_mem" not in found
    assert "node_sockstat_UDPLITE_inuse" not in found
    assert not any("6" in name for name in found), "no sockstat6 without IPv6"


def test_unknown_protocol_or_state_is_ignored(values) -> None:
    found = values(parse("QUIC: inuse 3\nTCP: inuse 1 parked 2\n", page_size=4096))
    assert found == {"node_sockstat_TCP_inuse": 1}


def test_kernel_without_both_families_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(SockStat(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "text",
    ["TCP: inuse\n", "TCP inuse 1\n", "TCP:\n", "\n", "TCP: inuse x\n", "TCP: inuse -1\n"],
)  # fmt: skip
def test_invalid_sockstat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="sockstat"):
        list(parse(text, page_size=4096))
