"""Linux virtual servers (IPVS): totals and the connections of each backend, from <procfs>/net/ip_vs and ip_vs_stats."""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_hex, parse_uint
from plimsoll.flags import option

IPVS_LABELS = (
    "local_address", "local_port", "remote_address", "remote_port", "proto", "local_mark"
)  # fmt: skip


_TOTALS = {
    "connections_total": "The total number of connections made.",
    "incoming_packets_total": "The total number of incoming packets.",
    "outgoing_packets_total": "The total number of outgoing packets.",
    "incoming_bytes_total": "The total amount of incoming data.",
    "outgoing_bytes_total": "The total amount of outgoing data.",
}
_BACKEND = {
    "weight": "The current backend weight by local and remote address.",
    "connections_active": "The current active connections by local and remote address.",
    "connections_inactive": "The current inactive connections by local and remote address.",
}
METRICS = Table(
    *(
        Metric(
            f"node_ipvs_{name}",
            "counter",
            about,
            "<procfs>/1/net/ip_vs_stats",
            unit="bytes" if "bytes" in name else "",
        )
        for name, about in _TOTALS.items()
    ),
    *(
        Metric(
            f"node_ipvs_backend_{name}", "gauge", about, "<procfs>/1/net/ip_vs", tuple(IPVS_LABELS)
        )
        for name, about in _BACKEND.items()
    ),
)


def _ipvs_labels(text: str) -> str:
    chosen = set(filter(None, text.split(",")))
    if unknown := sorted(chosen - set(IPVS_LABELS)):
        raise ValueError(f"unknown labels {', '.join(unknown)}; there are {', '.join(IPVS_LABELS)}")
    return ",".join(label for label in IPVS_LABELS if label in chosen)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    ipvs_backend_labels: str = option(
        "collector.ipvs.backend-labels",
        ",".join(IPVS_LABELS),
        "labels of backends, comma-separated; backends that differ in other labels are added up",
        metavar="LABELS",
        parse=_ipvs_labels,
    )


_IPV4 = 8  # digits
_BACKENDS = tuple(f"node_ipvs_backend_{name}" for name in _BACKEND)


class Backend(NamedTuple):
    """A real server of a virtual one: its labels, and weight, active and inactive connections."""

    labels: Mapping[str, str]
    counts: tuple[int, int, int]


@guard.some
def parse_stats(text: str) -> Iterator[Family]:
    """Yield the totals: five hexadecimal numbers in the third line."""
    lines = text.splitlines()
    words = lines[2].split() if len(lines) > 2 else []
    if len(words) != len(_TOTALS):
        raise CollectorError(f"ip_vs_stats: {len(words)} totals, not {len(_TOTALS)}")
    for name, word in zip(_TOTALS, words, strict=True):
        try:
            yield METRICS.single(f"node_ipvs_{name}", float(parse_hex(word)))
        except ValueError as error:
            guard.skip(f"ip_vs_stats: {name}: {error}", f"node_ipvs_{name}")


@guard.some
def parse_backends(text: str) -> Iterator[Backend]:
    """Yield the real servers below the line of their virtual server."""
    virtual: dict[str, str] = {}
    for line in text.splitlines():
        try:
            match line.split():
                case ["->", remote, _, weight, active, inactive]:
                    if virtual:
                        address, port = parse_address(remote)
                        counts = parse_uint(weight), parse_uint(active), parse_uint(inactive)
                        backend = {**virtual, "remote_address": address, "remote_port": port}
                        yield Backend(backend, counts)
                case ["->", *rest] if virtual and rest:
                    raise ValueError(f"unexpected line {line[:80]!r}")
                case ["->", *_]:
                    pass
                case words:
                    virtual = {}  # of a line that cannot be read, and of headings
                    virtual = _virtual(words)
        except ValueError as error:
            guard.skip(f"ip_vs: {error}", *_BACKENDS)


def _virtual(words: list[str]) -> dict[str, str]:
    """Return the labels of a virtual server; empty for headings. Raises ValueError."""
    match words:
        case ["TCP" | "UDP" | "SCTP" as proto, local, *_]:
            address, port = parse_address(local)
            return {
                "proto": proto, "local_address": address, "local_port": port, "local_mark": ""
            }  # fmt: skip
        case ["FWM", mark, *_]:
            return {
                "proto": "FWM", "local_address": "", "local_port": "0", "local_mark": mark
            }  # fmt: skip
        case [] | ["IP" | "Prot", *_]:
            return {}
        case _:
            pass
    raise ValueError(f"unexpected line {' '.join(words)[:80]!r}")


def parse_address(text: str) -> tuple[str, str]:
    """Return address and port of `C0A80016:0CEA` or `[2001:0db8:...:0001]:0050`."""
    address, _, port = text.rpartition(":")
    if address.startswith("["):
        ip = str(ipaddress.IPv6Address(address.strip("[]")))
    elif len(address) == _IPV4:
        ip = str(ipaddress.IPv4Address(parse_hex(address)))
    else:
        raise ValueError(f"not an address: {text[:60]!r}")
    return ip, str(parse_hex(port))


class Ipvs:
    """The `ipvs` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = netroot.directory(machine)
        self._labels = options.ipvs_backend_labels.split(",")

    def collect(self) -> Iterator[Family]:
        """Read the sources now."""
        yield from guard.attempt(parse_stats(host.read(self._directory / "ip_vs_stats")))
        sums: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for backend in guard.attempt(parse_backends(host.read(self._directory / "ip_vs"))):
            key = tuple((label, backend.labels[label]) for label in self._labels)
            total = sums.setdefault(key, [0, 0, 0])
            total[:] = [a + b for a, b in zip(total, backend.counts, strict=True)]
        for index, name in enumerate(_BACKEND):
            rows = ((dict(key), float(counts[index])) for key, counts in sums.items())
            yield METRICS.partial(f"node_ipvs_backend_{name}", rows)


ENTRY = Entry(
    build=Ipvs,
    metrics=METRICS,
    about="virtual servers (IPVS) and their backends",
    options=Options,
    source="<net>/ip_vs_stats",
)
