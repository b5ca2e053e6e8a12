import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.nfs import Nfs, parse

TEXT = """\
net 18 3 15 2
rpc 1000 17 1005
proc2 18 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
proc3 22 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9
proc4 4 1 200 300 0
"""


def test_packets_calls_and_procedures_are_exported(values) -> None:
    found = values(parse(TEXT))
    expected = {
        'node_nfs_packets_total{protocol="udp"}': 3,
        'node_nfs_packets_total{protocol="tcp"}': 15,
        "node_nfs_connections_total": 2,
        "node_nfs_rpcs_total": 1000,
        "node_nfs_rpc_retransmissions_total": 17,
        "node_nfs_rpc_authentication_refreshes_total": 1005,
        'node_nfs_requests_total{proto="2",method="FsStat"}': 17,
        'node_nfs_requests_total{proto="3",method="GetAttr"}': 100,
        'node_nfs_requests_total{proto="3",method="Commit"}': 9,
        'node_nfs_requests_total{proto="4",method="Write"}': 300,
    }
    assert {series: found[series] for series in expected} == expected


def test_procedures_that_an_older_kernel_does_not_have_are_absent(values) -> None:
    found = values(parse(TEXT))
    assert len([series for series in found if 'proto="4"' in series]) == 4
    assert 'node_nfs_requests_total{proto="4",method="Clone"}' not in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rpc 1 2 3\n",
        "net 1 2 3\n",
        "net 1 2 3 x\n",
    ],
)
def test_damaged_file_is_an_error(text: str) -> None:
    with pytest.raises(CollectorError, match="nfs"):
        list(parse(text))


def test_machine_without_nfs_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Nfs(plant({})).collect())
