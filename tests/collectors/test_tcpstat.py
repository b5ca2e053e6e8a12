import socket
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.tcpstat import TcpStat, parse

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def line(state: str, queues: str = "00000000:00000000") -> str:
    return f"   0: 0100007F:1F90 00000000:0000 {state} {queues} 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0\n"


def series(state: str) -> str:
    return f'node_tcp_connection_states{{state="{state}"}}'


def test_sockets_of_both_protocols_are_counted_by_state(plant, values) -> None:
    tcp = HEAD + line("0A", "00000000:00000005") + line("01", "00000010:0000000A") + line("06")
    host = plant({"proc/net/tcp": tcp, "proc/net/tcp6": HEAD + line("01") + line("0C")})
    found = values(TcpStat(host).collect())
    expected = {"listen": 1, "established": 2, "time_wait": 1, "syn_recv": 1, "close_wait": 0}
    assert {state: found[series(state)] for state in expected} == expected
    assert found[series("tx_queued_bytes")] == 16
    assert found[series("rx_queued_bytes")] == 10, "a listening socket's queue has connections"


def test_own_sockets_are_found(values) -> None:
    with socket.create_server(("127.0.0.1", 0)):
        assert values(TcpStat(Host()).collect())[series("listen")] >= 1


@pytest.mark.parametrize("text", [line("FF"), "   0: 0100007F:1F90\n", line("01", "x:0")])
def test_damaged_line_is_an_error(text: str) -> None:
    with pytest.raises(CollectorError, match="tcp"):
        parse(HEAD + text)


def test_missing_files_are_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(TcpStat(Host(procfs=tmp_path)).collect())
