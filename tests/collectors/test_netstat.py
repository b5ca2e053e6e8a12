import pytest

from collectors import netstat
from collectors.interface.sample import CollectorError
from collectors.netstat import NetStat, Options, Picker, families, parse_lines, parse_pairs

PARSERS = {
    "netstat": lambda text: netstat.families(netstat.parse_pairs(text, netstat.Picker(""))),
    "netstat numbers": lambda text: netstat.families(
        netstat.parse_pairs(f"Tcp: A B\nTcp: {text}", netstat.Picker(""))
    ),
    "snmp6": lambda text: netstat.families(netstat.parse_lines(text, netstat.Picker(""))),
}


EVERYTHING = ""


def test_default_fields_are_those_of_node_exporter(machine, values) -> None:
    found = values(NetStat(machine("xeon"), Options()).collect())
    assert found == {
        "node_netstat_TcpExt_SyncookiesSent": 4,
        "node_netstat_TcpExt_SyncookiesRecv": 3,
        "node_netstat_TcpExt_SyncookiesFailed": 119,
        "node_netstat_TcpExt_ListenOverflows": 12,
        "node_netstat_TcpExt_ListenDrops": 13,
        "node_netstat_TcpExt_TCPTimeouts": 5012,
        "node_netstat_TcpExt_TCPRcvQDrop": 2,
        "node_netstat_TcpExt_TCPOFOQueue": 60110,
        "node_netstat_TcpExt_TCPSynRetrans": 3301,
        "node_netstat_IpExt_InOctets": 9812345678901,
        "node_netstat_IpExt_OutOctets": 4412345678901,
        "node_netstat_Ip_Forwarding": 1,
        "node_netstat_Icmp_InMsgs": 90211,
        "node_netstat_Icmp_InErrors": 31,
        "node_netstat_Icmp_OutMsgs": 80122,
        "node_netstat_Tcp_ActiveOpens": 3301122,
        "node_netstat_Tcp_PassiveOpens": 4401133,
        "node_netstat_Tcp_CurrEstab": 412,
        "node_netstat_Tcp_InSegs": 6600112233,
        "node_netstat_Tcp_OutSegs": 7700112233,
        "node_netstat_Tcp_RetransSegs": 112233,
        "node_netstat_Tcp_InErrs": 14,
        "node_netstat_Tcp_OutRsts": 55112,
        "node_netstat_Udp_InDatagrams": 55001122,
        "node_netstat_Udp_NoPorts": 3011,
        "node_netstat_Udp_InErrors": 17,
        "node_netstat_Udp_OutDatagrams": 54001122,
        "node_netstat_Udp_RcvbufErrors": 16,
        "node_netstat_Udp_SndbufErrors": 1,
        "node_netstat_UdpLite_InErrors": 0,
        "node_netstat_Ip6_InOctets": 99001122,
        "node_netstat_Ip6_OutOctets": 88001122,
        "node_netstat_Icmp6_InMsgs": 4411,
        "node_netstat_Icmp6_InErrors": 1,
        "node_netstat_Icmp6_OutMsgs": 3300,
        "node_netstat_Udp6_InDatagrams": 21001,
        "node_netstat_Udp6_NoPorts": 6,
        "node_netstat_Udp6_InErrors": 2,
        "node_netstat_Udp6_OutDatagrams": 20110,
        "node_netstat_Udp6_RcvbufErrors": 2,
        "node_netstat_Udp6_SndbufErrors": 0,
        "node_netstat_UdpLite6_InErrors": 0,
    }


def test_type_and_help_are_those_of_node_exporter(machine) -> None:
    described = {f.name: f for f in NetStat(machine("xeon"), Options()).collect()}
    drops = described["node_netstat_TcpExt_ListenDrops"]
    assert (drops.type, drops.help) == ("untyped", "Statistic TcpExtListenDrops.")


def test_custom_pattern_matches_anywhere_and_finds_negative_values(machine, values) -> None:
    options = Options(netstat_fields="MaxConn|Icmp6_OutType143")
    assert values(NetStat(machine("xeon"), options).collect()) == {
        "node_netstat_Tcp_MaxConn": -1,
        "node_netstat_Icmp6_OutType143": 77,
    }


def test_missing_ipv6_means_no_snmp6(machine, values) -> None:
    found = values(NetStat(machine("vm2012"), Options()).collect())
    assert found["node_netstat_Tcp_CurrEstab"] == 9
    assert not any("6" in name for name in found)


def test_new_field_of_a_kernel_shifts_no_other(values) -> None:
    picker = Picker("^Tcp_B$")
    before = dict(parse_pairs("Tcp: A B\nTcp: 1 2\n", picker))
    after = dict(parse_pairs("Tcp: B A\nTcp: 3 4\n", picker))
    assert (before, after) == ({"node_netstat_Tcp_B": 2}, {"node_netstat_Tcp_B": 3})


@pytest.mark.parametrize(
    "text",
    [
        "Tcp: A B\n",
        "Tcp: A B\nTcp: 1\n",
        "Tcp: A\nUdp: 1\n",
        "Tcp A\nTcp 1\n",
        "\n\n",
        "Tcp: A\nTcp: x\n",
        "Tcp: A-B\nTcp: 1\n",
        "Tcp: A\nIp: B\n",
    ],
)
def test_invalid_netstat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="netstat"):
        list(families(parse_pairs(text, Picker(EVERYTHING))))


@pytest.mark.parametrize("text", ["Ip6InReceives\n", "Ip6InReceives x\n", "Ip6A 1 2\n", "\n"])
def test_invalid_snmp6_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match=r"snmp6|netstat"):
        list(families(parse_lines(text, Picker(EVERYTHING))))


def test_line_of_snmp6_not_of_ipv6_is_ignored() -> None:
    assert list(parse_lines("Tcp4 1\n", Picker(EVERYTHING))) == []


def test_later_reads_of_snmp6_yield_current_values_and_notice_changed_lines(plant, values) -> None:
    empty = {"proc/net/netstat": "", "proc/net/snmp": ""}
    collector = NetStat(plant({**empty, "proc/net/snmp6": "Ip6InOctets\t1\nIp6A\t2\n"}), Options())
    assert values(collector.collect()) == {"node_netstat_Ip6_InOctets": 1}
    plant({"proc/net/snmp6": "Ip6InOctets\t5\nIp6A\t2\n"})
    assert values(collector.collect()) == {"node_netstat_Ip6_InOctets": 5}
    plant({"proc/net/snmp6": "Ip6OutOctets\t3\nIp6InOctets\t6\n"})
    expected = {"node_netstat_Ip6_OutOctets": 3, "node_netstat_Ip6_InOctets": 6}
    assert values(collector.collect()) == expected
    plant({"proc/net/snmp6": "Ip6OutOctets\t3\nIp6InOctets\tx\n"})
    assert values(collector.collect()) == {"node_netstat_Ip6_OutOctets": 3}


GVISOR = {
    "netstat": "TcpExt: SyncookiesSent ListenDrops\nIpExt: InNoRoutes InOctets\nMPTcpExt: MPCapableSYNRX\n",
    "snmp": "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: ActiveOpens CurrEstab\nTcp: 33 2\n",
    "snmp6": "Ip6InOctets\t9\nUdp6InDatagrams\t4\n",
}
READ = {
    "node_netstat_Ip_Forwarding": 1,
    "node_netstat_Tcp_ActiveOpens": 33,
    "node_netstat_Tcp_CurrEstab": 2,
    "node_netstat_Ip6_InOctets": 9,
    "node_netstat_Udp6_InDatagrams": 4,
}


@pytest.mark.parametrize("netstat", [GVISOR["netstat"], "", "TcpExt: A B\nTcpExt: 1\n", "x", None])
def test_names_without_numbers_hide_no_other_file(netstat: str | None, plant, values) -> None:
    texts = {**GVISOR, "netstat": netstat}
    host = plant({f"proc/net/{file}": text for file, text in texts.items() if text is not None})
    assert values(NetStat(host, Options()).collect()) == READ


def test_pair_after_names_without_numbers_is_read(plant, values) -> None:
    text = "IpExt: InNoRoutes\nTcpExt: ListenDrops TCPTimeouts\nTcpExt: 3 4\nMPTcpExt: X\n"
    host = plant({"proc/net/netstat": text, "proc/net/snmp": ""})
    assert values(NetStat(host, Options()).collect()) == {
        "node_netstat_TcpExt_ListenDrops": 3,
        "node_netstat_TcpExt_TCPTimeouts": 4,
    }
