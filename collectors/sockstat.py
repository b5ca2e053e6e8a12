"""Sockets in use and their memory by protocol, from <procfs>/net/sockstat and sockstat6."""

import os
from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_uint

_FILES = {
    "sockstat": {
        "TCP": ("alloc", "inuse", "mem", "mem_bytes", "orphan", "tw"),
        "UDP": ("inuse", "mem", "mem_bytes"),
        "UDPLITE": ("inuse",),
        "RAW": ("inuse",),
        "FRAG": ("inuse", "memory"),
    },
    "sockstat6": {
        "TCP6": ("inuse",),
        "UDP6": ("inuse",),
        "UDPLITE6": ("inuse",),
        "RAW6": ("inuse",),
        "FRAG6": ("inuse", "memory"),
    },
}
METRICS = Table(
    Metric(
        "node_sockstat_sockets_used",
        "gauge",
        "Number of IPv4 sockets in use.",
        "<procfs>/1/net/sockstat",
    ),
    *(
        Metric(
            f"node_sockstat_{protocol}_{state}",
            "gauge",
            f"Number of {protocol} sockets in state {state}.",
            f"<procfs>/1/net/{file}",
            unit="bytes" if state == "mem_bytes" else "",
        )
        for file, protocols in _FILES.items()
        for protocol, states in protocols.items()
        for state in states
    ),
)


@guard.some
def parse(text: str, *, page_size: int) -> Iterator[Family]:
    """Yield the families of a file; protocols and states of future kernels match the templates."""
    for name, value in _values(text, page_size):
        if METRICS.find(name) is not None:
            yield METRICS.single(name, float(value))


def _values(text: str, page_size: int) -> Iterator[tuple[str, int]]:
    seen: set[str] = set()
    for line in text.splitlines():
        protocol, *pairs = line.split() or [""]
        if not protocol.endswith(":") or protocol in seen or not pairs or len(pairs) % 2:
            guard.skip(f"sockstat: unexpected line {line[:80]!r}")
            continue
        seen.add(protocol)
        states: dict[str, int] = {}
        for state, text in zip(pairs[::2], pairs[1::2], strict=True):
            try:
                states[state] = parse_uint(text)
            except ValueError as error:
                guard.skip(f"sockstat: {protocol} {state[:40]}: {error}")
        if "mem" in states:  # in pages
            states["mem_bytes"] = states["mem"] * page_size
        for state, value in states.items():
            yield f"node_sockstat_{protocol[:-1]}_{state}", value


class SockStat:
    """The `sockstat` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = netroot.directory(machine)
        self._page_size = os.sysconf("SC_PAGE_SIZE")

    def collect(self) -> Iterator[Family]:
        """Read the sources; a kernel may lack IPv4 or IPv6."""
        for text in host.read_each(self._directory, tuple(_FILES)).values():
            yield from guard.attempt(parse(text, page_size=self._page_size))


ENTRY = Entry(build=lambda host, _: SockStat(host), metrics=METRICS, about="sockets by protocol")
