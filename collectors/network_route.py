"""The routing table of this network namespace, by netlink."""

import ipaddress
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import netroot, routenetlink
from collectors.shared.routenetlink import Message

METRICS = Table(
    Metric(
        "node_network_route_info",
        "gauge",
        "network routing table information",
        "netlink",
        ("device", "src", "dest", "gw", "priority", "proto", "weight"),
    ),
    Metric(
        "node_network_routes", "gauge", "network routes by interface", "netlink", ("device",)
    ),
)  # fmt: skip
# RTPROT_* in the kernel's include/uapi/linux/rtnetlink.h
_PROTOCOLS = {
    0: "unspec", 1: "redirect", 2: "kernel", 3: "boot", 4: "static", 8: "gated", 9: "ra", 10: "mrt", 11: "zebra", 12: "bird",
    13: "dnrouted", 14: "xorp", 15: "ntk", 16: "dhcp", 17: "mrouted", 42: "babel", 186: "bgp", 187: "isis", 188: "ospf",
    189: "rip", 192: "eigrp",
}  # fmt: skip
_UNICAST = 1
Row = tuple[str, str, str, str, str, str, str]


def parse(routes: Iterable[Message], device: Callable[[int], str | None]) -> Iterator[Row]:
    """Yield the labels of unicast routes; one with several next hops yields one row for each."""
    for route in routes:
        if route["type"] != _UNICAST:
            continue
        attributes = routenetlink.attributes_of(route)
        hops = attributes.get("RTA_MULTIPATH") or [None]
        for hop in hops:
            index = attributes.get("RTA_OIF") if hop is None else hop["oif"]
            gateways = attributes if hop is None else routenetlink.attributes_of(hop)
            yield (
                (device(index) if index else None) or "",
                _text(attributes.get("RTA_PREFSRC")),
                _destination(attributes.get("RTA_DST"), route["dst_len"]),
                _text(gateways.get("RTA_GATEWAY")),
                str(attributes.get("RTA_PRIORITY", 0)),
                _PROTOCOLS.get(route["proto"], "unknown"),
                "" if hop is None else str(hop["hops"] + 1),
            )


def _text(address: object) -> str:
    return "" if address is None else str(address)


def _destination(address: object, length: int) -> str:
    if not length:
        return "default"
    return str(ipaddress.ip_network((str(address), length), strict=False))


def _name(index: int) -> str | None:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return None  # removed during the dump


class NetworkRoute:
    """The `network_route` collector."""

    def __init__(
        self, machine: host.Host, *, connect: routenetlink.Connect = routenetlink.connect
    ) -> None:
        self._machine = machine
        self._connect = connect

    def collect(self) -> Iterator[Family]:
        """Query the kernel."""
        netroot.require_own(self._machine)
        routes = routenetlink.ask(lambda s: s.get_routes(), self._connect)
        rows = list(parse(routes, _name))
        counts = Counter(row[0] for row in rows)
        info = ((row, 1.0) for row in dict.fromkeys(rows))  # equal ones are in different tables
        yield METRICS.family("node_network_route_info", info)
        yield METRICS.family("node_network_routes", (((d,), float(n)) for d, n in counts.items()))


ENTRY = Entry(
    build=lambda host, _: NetworkRoute(host),
    metrics=METRICS,
    about="the routing table",
    on=False,
    needs="hostNetwork",
)
