"""What the kernel tells of this network namespace over netlink: statistics and addresses of the devices, queueing disciplines.

pyroute2 asks and decodes. It takes 24 MB, so it is loaded by the first question and not before: who wants none, pays nothing.
"""

import importlib
import ipaddress
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from collectors.base.sample import CollectorError, SourceAbsentError

_TRIES = 3
_ROOT = 0xFFFFFFFF  # TC_H_ROOT: the parent of a discipline that has none
_DIRECTIONS = {"rx": "receive", "tx": "transmit"}

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Message = Mapping[str, Any]
"""A message as pyroute2 decodes it: the fields of its header, and under `attrs` pairs of a name and a value."""


class Socket(Protocol):
    """The questions that are asked of pyroute2's IPRoute."""

    def get_links(self) -> Iterable[Message]: ...
    def get_addr(self) -> Iterable[Message]: ...
    def get_qdiscs(self) -> Iterable[Message]: ...


Connect = Callable[[], AbstractContextManager[Socket]]
"""Opens a connection to the kernel, or says SourceAbsentError."""


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """One address of one device."""

    device: str
    ip: IpAddress
    prefix: int


@dataclass(frozen=True, slots=True)
class Qdisc:
    """A device's queueing discipline and what it counted; None for what it does not."""

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
    """pyroute2, or one of its modules."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SourceAbsentError(
            f"pyroute2 is not installed ({error}): pip install 'kube-plimsoll[agent]'"
        ) from error


def connect() -> AbstractContextManager[Socket]:
    """A connection to the kernel."""
    connection: AbstractContextManager[Socket] = pyroute2().IPRoute()
    return connection


def ask(question: Callable[[Socket], Iterable[Message]], opened: Connect) -> list[Message]:
    """All messages of an answer. The kernel says if things changed while it was listing them: then it is asked again."""
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
    """Device to its counters, by node_exporter's names for them."""
    return dict(parse_statistics(ask(lambda s: s.get_links(), opened)))


def addresses(opened: Connect = connect) -> list[InterfaceAddress]:
    """The addresses of all devices."""
    return list(parse_addresses(ask(lambda s: s.get_addr(), opened), _device))


def qdiscs(opened: Connect = connect) -> list[Qdisc]:
    """The outermost queueing discipline of each device."""
    return list(parse_qdiscs(ask(lambda s: s.get_qdiscs(), opened), _device))


def parse_statistics(links: Iterable[Message]) -> Iterator[tuple[str, dict[str, int]]]:
    """Devices and their counters. Those whose driver has none have no entry."""
    for link in links:
        attributes = _attributes(link)
        counters = attributes.get("IFLA_STATS64") or attributes.get("IFLA_STATS")
        if counters and "IFLA_IFNAME" in attributes:
            yield (
                str(attributes["IFLA_IFNAME"]),
                {_statistic(name): int(count) for name, count in counters.items()},
            )


def _statistic(name: str) -> str:
    """`rx_bytes` as `receive_bytes`."""
    direction, _, rest = name.partition("_")
    return f"{_DIRECTIONS[direction]}_{rest}" if direction in _DIRECTIONS else name


def parse_addresses(
    messages: Iterable[Message], device: Callable[[int], str | None]
) -> Iterator[InterfaceAddress]:
    """Addresses. Of a point-to-point link, our end: the other one is what the kernel calls its address."""
    for message in messages:
        attributes = _attributes(message)
        text = attributes.get("IFA_LOCAL") or attributes.get("IFA_ADDRESS")
        if text and (name := device(message["index"])) is not None:
            yield InterfaceAddress(name, ipaddress.ip_address(text), int(message["prefixlen"]))


def parse_qdiscs(
    messages: Iterable[Message], device: Callable[[int], str | None]
) -> Iterator[Qdisc]:
    """Disciplines that have no parent; their statistics include those of the ones below."""
    for message in messages:
        if message["parent"] not in {0, _ROOT} or (name := device(message["index"])) is None:
            continue
        attributes = _attributes(message)
        kinds = _attributes(attributes.get("TCA_STATS2") or {})
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


def _attributes(message: Message) -> dict[str, Any]:
    return dict(message.get("attrs", ()))


def _device(index: int) -> str | None:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return None  # gone since the kernel listed it
