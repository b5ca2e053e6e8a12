import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.ipvs import Ipvs, parse_address, parse_backends, parse_stats
from collectors.ipvs import Options as IpvsOptions

STATS = """\
   Total Incoming Outgoing         Incoming         Outgoing
   Conns  Packets  Packets            Bytes            Bytes
      1F       A0        B             1000                0

 Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s
       4    1FB3C        0          1282A8F                0
"""
TABLE = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> 0A010105:1964      Masq    1      7          2
  -> 0A010106:1964      Masq    3      5          1
UDP  [2001:0db8:0000:0000:0000:0000:0000:0001]:0035 wlc
  -> [2001:0db8:0000:0000:0000:0000:0000:0002]:0035      Route   1      0          4
FWM  00000A00 wlc
  -> 0A010107:0050      Tunnel  2      6          0
"""


@pytest.fixture
def host(plant):
    return plant({"proc/net/ip_vs": TABLE, "proc/net/ip_vs_stats": STATS})


def test_totals_and_connections_of_backends_are_exported(host, values) -> None:
    found = values(Ipvs(host, IpvsOptions()).collect())
    assert found["node_ipvs_connections_total"] == 31
    assert found["node_ipvs_incoming_bytes_total"] == 4096
    tcp = 'local_address="10.96.0.1",local_port="443",remote_address="10.1.1.5",remote_port="6500",proto="TCP",local_mark=""'
    udp = 'local_address="2001:db8::1",local_port="53",remote_address="2001:db8::2",remote_port="53",proto="UDP",local_mark=""'
    fwm = 'local_address="",local_port="0",remote_address="10.1.1.7",remote_port="80",proto="FWM",local_mark="00000A00"'
    assert found[f"node_ipvs_backend_connections_active{{{tcp}}}"] == 7
    assert found[f"node_ipvs_backend_connections_inactive{{{udp}}}"] == 4
    assert found[f"node_ipvs_backend_weight{{{fwm}}}"] == 2


def test_backends_that_differ_in_other_labels_are_added_up(host, values) -> None:
    options = IpvsOptions(ipvs_backend_labels="local_address,local_port")
    found = values(Ipvs(host, options).collect())
    service = 'local_address="10.96.0.1",local_port="443"'
    assert found[f"node_ipvs_backend_connections_active{{{service}}}"] == 12
    assert found[f"node_ipvs_backend_weight{{{service}}}"] == 4


@pytest.mark.parametrize("text", ["", "a\nb\n", "a\nb\n1 2 3\n", "a\nb\nx y z u v\n"])
def test_damaged_totals_are_an_error(text: str) -> None:
    with pytest.raises(CollectorError, match="ip_vs_stats"):
        list(parse_stats(text))


@pytest.mark.parametrize("address", ["0A60:01BB", "[::zz]:0001", "0A600001", "0A600001:x"])
def test_damaged_addresses_are_errors(address: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_address(address)
    with pytest.raises(CollectorError, match="ip_vs:"):
        list(parse_backends(f"TCP  {address} rr\n"))


def test_machine_without_ipvs_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Ipvs(plant({}), IpvsOptions()).collect())
