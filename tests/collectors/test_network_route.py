from contextlib import nullcontext

from collectors.interface.host import Host
from collectors.network_route import NetworkRoute, parse

DEVICES = {1: "lo", 2: "eth0", 3: "eth1"}
UNICAST, LOCAL = 1, 2


def route(length: int, proto: int, *attributes: tuple[str, object], kind: int = UNICAST):
    return {"type": kind, "dst_len": length, "proto": proto, "attrs": list(attributes)}


ROUTES = [
    route(0, 16, ("RTA_GATEWAY", "192.0.2.1"), ("RTA_OIF", 2), ("RTA_PRIORITY", 100)),
    route(24, 2, ("RTA_DST", "192.0.2.0"), ("RTA_PREFSRC", "192.0.2.2"), ("RTA_OIF", 2)),
    route(8, 2, ("RTA_DST", "127.0.0.0"), ("RTA_OIF", 1), kind=LOCAL),
    route(
        64,
        99,
        ("RTA_DST", "2001:db8::"),
        (
            "RTA_MULTIPATH",
            [
                {"oif": 2, "hops": 0, "attrs": [("RTA_GATEWAY", "fe80::1")]},
                {"oif": 3, "hops": 9, "attrs": [("RTA_GATEWAY", "fe80::2")]},
            ],
        ),
    ),
    route(32, 4, ("RTA_DST", "198.51.100.7"), ("RTA_OIF", 77)),
]


def test_unicast_routes_and_their_next_hops_are_parsed() -> None:
    assert list(parse(ROUTES, DEVICES.get)) == [
        ("eth0", "", "default", "192.0.2.1", "100", "dhcp", ""),
        ("eth0", "192.0.2.2", "192.0.2.0/24", "", "0", "kernel", ""),
        ("eth0", "", "2001:db8::/64", "fe80::1", "0", "unknown", "1"),
        ("eth1", "", "2001:db8::/64", "fe80::2", "0", "unknown", "10"),
        ("", "", "198.51.100.7/32", "", "0", "static", ""),
    ]


class Kernel:
    def get_routes(self):
        return [route(8, 2, ("RTA_DST", "127.0.0.0"), ("RTA_OIF", 1))] * 2


def test_equal_routes_of_several_tables_are_counted_and_exported_once(values) -> None:
    found = values(NetworkRoute(Host(), connect=lambda: nullcontext(Kernel())).collect())
    labels = 'device="lo",src="",dest="127.0.0.0/8",gw="",priority="0",proto="kernel",weight=""'
    assert found == {
        f"node_network_route_info{{{labels}}}": 1,
        'node_network_routes{device="lo"}': 2,
    }
