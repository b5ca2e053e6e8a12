import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.nfsd import Nfsd, parse

OPERATIONS = " ".join(map(str, range(100, 172)))
TEXT = f"""\
rc 0 6 18622
fh 3 0 0 0 0
io 157286400 72864
th 8 0 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000
ra 32 0 0 0 0 0 0 0 0 0 0 7
net 972 55 917 1
rpc 18628 3 1 2 0
proc3 22 2 112 0 2719 111 0 0 0 0 0 0 0 0 0 0 0 27 216 0 2 1 0
proc4 2 2 10853
proc4ops 72 {OPERATIONS}
wdeleg_getattr 15
"""


def test_caches_io_calls_and_procedures_are_exported(values) -> None:
    found = values(parse(TEXT))
    expected = {
        "node_nfsd_reply_cache_nocache_total": 18622,
        "node_nfsd_file_handles_stale_total": 3,
        "node_nfsd_disk_bytes_read_total": 157286400,
        "node_nfsd_server_threads": 8,
        "node_nfsd_read_ahead_cache_size_blocks": 32,
        "node_nfsd_read_ahead_cache_not_found_total": 7,
        'node_nfsd_packets_total{proto="tcp"}': 917,
        "node_nfsd_connections_total": 1,
        "node_nfsd_server_rpcs_total": 18628,
        'node_nfsd_rpc_errors_total{error="auth"}': 2,
        'node_nfsd_requests_total{proto="3",method="Lookup"}': 2719,
        'node_nfsd_requests_total{proto="4",method="Access"}': 103,
        'node_nfsd_requests_total{proto="4",method="Read"}': 125,
        'node_nfsd_requests_total{proto="4",method="RelLockOwner"}': 139,
        'node_nfsd_requests_total{proto="4",method="WdelegGetattr"}': 15,
    }
    assert {series: found[series] for series in expected} == expected
    assert not any('method="Null"' in series or 'method="-"' in series for series in found)


def test_what_newer_kernels_do_not_have_is_absent(values) -> None:
    found = values(parse("net 972 55 917 1\nth 8 0\n"))
    assert not any("read_ahead" in series or 'proto="2"' in series for series in found)
    assert found["node_nfsd_server_threads"] == 8


@pytest.mark.parametrize("line", ["rc 1", "io x 2", "proc3 22 1", "rpc 1 2", "fh -1"])
def test_damaged_line_is_left_out(line: str, values) -> None:
    found = values(parse(f"net 1 2 3 4\n{line}\n"))
    assert found.items() >= values(parse("net 1 2 3 4\n")).items()


def test_machine_that_is_no_server_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Nfsd(plant({})).collect())
