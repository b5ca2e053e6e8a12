"""Netlink queries for this network namespace through pyroute2: device statistics, addresses, queueing disciplines.

pyroute2 takes 24 MB, so it is imported by the first query.
"""

import importlib
import ipaddress
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from collectors.interface.sample import CollectorError, SourceAbsentError

_TRIES = 3
_ROOT = 0xFFFFFFFF  # TC_H_ROOT: parent of a root discipline
_DIRECTIONS = {"rx": "receive", "tx": "transmit"}

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Message = Mapping[str, Any]
"""A message decoded by pyroute2: header fields, and under `attrs` pairs of name and value."""


class Socket(Protocol):
    """The queries used of pyroute2's IPRoute."""

    def get_links(self) -> Iterable[Message]: ...
    def get_addr(self) -> Iterable[Message]: ...
    def get_qdiscs(self) -> Iterable[Message]: ...
    def get_routes(self) -> Iterable[Message]: ...


Connect = Callable[[], AbstractContextManager[Socket]]
"""Opens a connection to the kernel. Raises SourceAbsentError if that is not possible."""


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """One address of a device."""

    device: str
    ip: IpAddress
    prefix: int


@dataclass(frozen=True, slots=True)
class Qdisc:
    """A device's queueing discipline and its counters; None for missing ones."""

    device: str
    kind: str
    bytes: int | None
    packets: int | None
    drops: int | None
    requeues: int | None
    overlimits: int | None
    qlen: int | None
    backlog: int | None


def pyroute2(module: str = "pyroute2") -> Any:
    """Import pyroute2 or one of its modules."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SourceAbsentError(
            f"pyroute2 is not installed ({error}): pip install 'kube-plimsoll[agent]'"
        ) from error


def connect() -> AbstractContextManager[Socket]:
    """Open a connection to the kernel."""
    connection: AbstractContextManager[Socket] = pyroute2().IPRoute()
    return connection


def ask(question: Callable[[Socket], Iterable[Message]], opened: Connect) -> list[Message]:
    """Return all messages of a reply. If the kernel reports changes during the dump, it is repeated."""
    errors = pyroute2("pyroute2.netlink.exceptions")
    for _ in range(_TRIES):
        try:
            with opened() as connection:
                return list(question(connection))
        except errors.NetlinkDumpInterrupted:
            continue
        except (OSError, errors.NetlinkError, errors.NetlinkDecodeError) as error:
            raise CollectorError(f"netlink: {error}") from error
    raise CollectorError("netlink: the devices kept changing while they were listed")


def statistics(opened: Connect = connect) -> dict[str, dict[str, int]]:
    """Return counters by device, with node_exporter's names."""
    return dict(parse_statistics(ask(lambda s: s.get_links(), opened)))


def addresses(opened: Connect = connect) -> list[InterfaceAddress]:
    """Return the addresses of all devices."""
    return list(parse_addresses(ask(lambda s: s.get_addr(), opened), _device))


def qdiscs(opened: Connect = connect) -> list[Qdisc]:
    """Return the root queueing discipline of each device."""
    return list(parse_qdiscs(ask(lambda s: s.get_qdiscs(), opened), _device))


def parse_statistics(links: Iterable[Message]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield devices and their counters, without devices whose driver has none."""
    for link in links:
        attributes = attributes_of(link)
        counters = attributes.get("IFLA_STATS64") or attributes.get("IFLA_STATS")
        if counters and "IFLA_IFNAME" in attributes:
            yield (
                str(attributes["IFLA_IFNAME"]),
                {_statistic(name): int(count) for name, count in counters.items()},
            )


def _statistic(name: str) -> str:
    """Return `rx_bytes` as `receive_bytes`."""
    direction, _, rest = name.partition("_")
    return f"{_DIRECTIONS[direction]}_{rest}" if direction in _DIRECTIONS else name


def parse_addresses(
    messages: Iterable[Message], device: Callable[[int], str | None]
) -> Iterator[InterfaceAddress]:
    """Yield addresses. For a point-to-point link the local one; the kernel's address attribute is the peer's."""
    for message in messages:
        attributes = attributes_of(message)
        text = attributes.get("IFA_LOCAL") or attributes.get("IFA_ADDRESS")
        if text and (name := device(message["index"])) is not None:
            yield InterfaceAddress(name, ipaddress.ip_address(text), int(message["prefixlen"]))


def parse_qdiscs(
    messages: Iterable[Message], device: Callable[[int], str | None]
) -> Iterator[Qdisc]:
    """Yield disciplines without a parent; their statistics include their children's."""
    for message in messages:
        if message["parent"] not in {0, _ROOT} or (name := device(message["index"])) is None:
            continue
        attributes = attributes_of(message)
        kinds = attributes_of(attributes.get("TCA_STATS2") or {})
        basic, queue = kinds.get("TCA_STATS_BASIC") or {}, kinds.get("TCA_STATS_QUEUE") or {}
        yield Qdisc(
            device=name,
            kind=str(attributes.get("TCA_KIND", "")),
            bytes=basic.get("bytes"),
            packets=basic.get("packets"),
            drops=queue.get("drops"),
            requeues=queue.get("requeues"),
            overlimits=queue.get("overlimits"),
            qlen=queue.get("qlen"),
            backlog=queue.get("backlog"),
        )


def attributes_of(message: Message) -> dict[str, Any]:
    """Return a message's attributes by name."""
    return dict(message.get("attrs", ()))


def _device(index: int) -> str | None:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return None  # removed during the dump
