"""The clock of a local NTP server compared with this machine's, by an SNTP query (RFC 5905)."""

import ipaddress
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from plimsoll.flags import count, duration, option, port


def _row(name: str, about: str) -> Metric:
    return Metric(
        f"node_ntp_{name}", "gauge", about, "NTP", unit="seconds" if "seconds" in name else ""
    )


METRICS = Table(
    _row("stratum", "NTPD stratum."),
    _row("leap", "NTPD leap second indicator, 2 bits."),
    _row("rtt_seconds", "RTT to NTPD."),
    _row("offset_seconds", "ClockOffset between NTP and local clock."),
    _row("reference_timestamp_seconds", "NTPD ReferenceTime, UNIX timestamp."),
    _row("root_delay_seconds", "NTPD RootDelay."),
    _row("root_dispersion_seconds", "NTPD RootDispersion."),
    _row("sanity", "NTPD sanity according to RFC5905 heuristics and configured limits."),
)


def _ntp_version(text: str) -> int:
    if text not in {"2", "3", "4"}:
        raise ValueError(f"not a version of NTP: {text!r} (2, 3 or 4)")
    return int(text)


def _ntp_port(text: str) -> int:
    if (number := port(text)) == 0:
        raise ValueError("0 is no port of a server")
    return number


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    ntp_server: str = option(
        "collector.ntp.server", "127.0.0.1", "address of the NTP server", metavar="ADDRESS"
    )
    ntp_port: int = option(
        "collector.ntp.server-port",
        123,
        "UDP port of the NTP server",
        metavar="PORT",
        parse=_ntp_port,
    )
    ntp_version: int = option(
        "collector.ntp.protocol-version",
        4,
        "version of the protocol",
        metavar="VERSION",
        parse=_ntp_version,
    )
    ntp_is_local: bool = option(
        "collector.ntp.server-is-local",
        False,
        "allow a server that is not on a loopback address; confirms that it is not a public one",
    )
    ntp_ttl: int = option(
        "collector.ntp.ip-ttl",
        1,
        "maximum number of routers to the server, plus 1",
        metavar="NUMBER",
        parse=count,
    )
    ntp_max_distance: float = option(
        "collector.ntp.max-distance",
        3.46608,
        "largest distance to the reference clock that node_ntp_sanity accepts",
        metavar="DURATION",
        parse=duration,
    )
    ntp_tolerance: float = option(
        "collector.ntp.local-offset-tolerance",
        0.001,
        "difference between the clocks that node_ntp_sanity accepts",
        metavar="DURATION",
        parse=duration,
    )

    def __post_init__(self) -> None:
        if not self.ntp_is_local and not _is_loopback(self.ntp_server):
            raise ValueError(
                f"--collector.ntp.server: {self.ntp_server!r} is no loopback address; --collector.ntp.server-is-local allows it"
            )


# Leap indicator, version and mode; stratum, poll, precision; root delay and dispersion; reference; four time stamps.
_PACKET = struct.Struct("!BBbbII4sQQQQ")
_CLIENT, _SERVER = 3, 4
_EPOCH = 2_208_988_800  # seconds from 1900 to 1970
_FRACTION = 1 << 32
_NANOSECONDS = 1_000_000_000
_TIMEOUT = 1.0
_UNSYNCHRONIZED = 3
_MOST_STRATUM = 15
_OLDEST = (
    1 << 17
)  # seconds since the server's clock was set: the longest interval between two polls
_MOST_DISPERSION = 16.0  # seconds
_DAY = 86_400


class Reply(NamedTuple):
    """What the server said; times are seconds since 1970, except for those of intervals."""

    stratum: int
    leap: int
    rtt: float
    offset: float
    reference: float
    transmitted: float
    root_delay: float
    root_dispersion: float
    error: float
    """A lower bound of the difference between the clocks: a reply cannot arrive before it was sent."""


def parse(packet: bytes, nonce: int, sent: int, arrived: int) -> Reply:
    """Parse a reply to the query with this transmit time stamp; times are `stamp`s. Raises CollectorError for anything else."""
    if len(packet) < _PACKET.size:
        raise CollectorError(f"NTP: a reply of {len(packet)} bytes")
    first, stratum, _, _, delay, dispersion, _, reference, origin, received, transmitted = (
        _PACKET.unpack_from(packet)
    )
    if first & 7 != _SERVER or origin != nonce:
        raise CollectorError("NTP: the reply does not match the query")
    return Reply(
        stratum,
        first >> 6,
        max(0, (arrived - sent) - (transmitted - received)) / _FRACTION,
        ((received - sent) + (transmitted - arrived)) / 2 / _FRACTION,
        max(0.0, reference / _FRACTION - _EPOCH),
        transmitted / _FRACTION - _EPOCH,
        delay / (1 << 16),
        dispersion / (1 << 16),
        max(0, sent - received, transmitted - arrived) / _FRACTION,
    )


def stamp(nanoseconds: int) -> int:
    """Return the NTP time stamp of a time since 1970. Differences of these are exact, those of floats are not."""
    return (nanoseconds + _EPOCH * _NANOSECONDS) * _FRACTION // _NANOSECONDS


def is_sane(reply: Reply, options: Options, *, smearing: bool) -> bool:
    """Return whether the server's clock can be used. A leap second may be smeared over a day: `smearing`."""
    tolerance = options.ntp_tolerance + (1.0 if smearing else 0.0)
    distance = (reply.rtt + reply.root_delay) / 2 + reply.root_dispersion
    return (
        0 < reply.stratum <= _MOST_STRATUM
        and reply.leap != _UNSYNCHRONIZED
        and 0 <= reply.transmitted - reply.reference <= _OLDEST
        and reply.root_delay / 2 + reply.root_dispersion <= _MOST_DISPERSION
        and distance <= options.ntp_max_distance
        and reply.error <= tolerance
    )


class Ntp:
    """The `ntp` collector."""

    def __init__(
        self, _machine: host.Host, options: Options, *, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._options = options
        self._clock = clock
        self._leap = -float("inf")  # the midnight of the last announced leap second

    def collect(self) -> Iterator[Family]:
        """Query the server now."""
        reply = self._query()
        if reply.leap in {1, 2}:  # announced until midnight only
            self._leap = reply.transmitted // _DAY * _DAY + _DAY
        smearing = abs(reply.transmitted - self._leap) < _DAY
        for name, value in (
            ("stratum", reply.stratum),
            ("leap", reply.leap),
            ("rtt_seconds", reply.rtt),
            ("offset_seconds", reply.offset),
            ("reference_timestamp_seconds", reply.reference),
            ("root_delay_seconds", reply.root_delay),
            ("root_dispersion_seconds", reply.root_dispersion),
            ("sanity", is_sane(reply, self._options, smearing=smearing)),
        ):
            yield METRICS.single(f"node_ntp_{name}", float(value))

    def _query(self) -> Reply:
        options = self._options
        nonce = int.from_bytes(os.urandom(8), "big")
        query = bytes([options.ntp_version << 3 | _CLIENT]) + bytes(39) + nonce.to_bytes(8, "big")
        try:
            ((family, kind, number, _, address), *_) = socket.getaddrinfo(
                options.ntp_server, options.ntp_port, type=socket.SOCK_DGRAM
            )
            with socket.socket(family, kind, number) as connection:
                connection.settimeout(_TIMEOUT)
                if family == socket.AF_INET6:
                    connection.setsockopt(
                        socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, options.ntp_ttl
                    )
                else:
                    connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, options.ntp_ttl)
                connection.connect(address)
                sent = stamp(self._clock())
                connection.send(query)
                packet = connection.recv(512)
                return parse(packet, nonce, sent, stamp(self._clock()))
        except OSError as error:
            raise CollectorError(f"NTP: {options.ntp_server}: {error.strerror or error}") from error


ENTRY = Entry(
    build=Ntp,
    metrics=METRICS,
    about="a local NTP server's clock",
    on=False,
    options=Options,
    needs="a local NTP server",
)
