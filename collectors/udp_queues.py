"""Memory in the queues of all UDP sockets, from <procfs>/net/udp and udp6."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_hex

METRICS = Table(
    Metric(
        "node_udp_queues",
        "gauge",
        "Number of allocated memory in the kernel for UDP datagrams in bytes.",
        "<procfs>/1/net/udp, udp6",
        ("queue", "ip"),
    )
)

_FILES = {"udp": "v4", "udp6": "v6"}
_QUEUES = 4  # the column tx_queue:rx_queue
_EMPTY = "00000000:00000000"


def parse(text: str) -> tuple[int, int]:
    """Return bytes to send and bytes received over all sockets."""
    queues = guard.readable(text.splitlines()[1:], _socket)
    return sum(sending for sending, _ in queues), sum(receiving for _, receiving in queues)


def _socket(line: str) -> tuple[int, int]:
    """Return bytes to send and bytes received."""
    # Columns after the queues are not parsed: a resolver may have ten thousand of these lines.
    columns = line.split(None, _QUEUES + 1)
    if len(columns) <= _QUEUES:
        raise CollectorError(f"udp: unexpected line {line[:80]!r}")
    if (queues := columns[_QUEUES]) == _EMPTY:
        return 0, 0
    tx, _, rx = queues.partition(":")
    try:
        return parse_hex(tx), parse_hex(rx)
    except ValueError as error:
        raise CollectorError(f"udp: {error}") from error


class UdpQueues:
    """The `udp_queues` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = netroot.directory(machine)

    def collect(self) -> Iterator[Family]:
        """Read the sources; a kernel may lack IPv4 or IPv6."""
        texts = host.read_each(self._directory, tuple(_FILES))
        queues = guard.readable(texts.items(), lambda item: (_FILES[item[0]], parse(item[1])))
        rows = [
            row
            for ip, (sending, receiving) in queues
            for row in ((("tx", ip), float(sending)), (("rx", ip), float(receiving)))
        ]
        yield METRICS.family("node_udp_queues", rows)


ENTRY = Entry(
    build=lambda host, _: UdpQueues(host),
    metrics=METRICS,
    about="memory in the queues of UDP sockets",
)
