"""TCP sockets by state, and bytes in their queues, from <procfs>/net/tcp and tcp6."""

from collections import Counter
from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_hex

METRICS = Table(
    Metric(
        "node_tcp_connection_states",
        "gauge",
        "Number of connection states.",
        "<procfs>/1/net/tcp",
        ("state",),
    )
)
# The order of the kernel's include/net/tcp_states.h; the last is a request socket, which is also in SYN_RECV.
_STATES = (
    "established", "syn_sent", "syn_recv", "fin_wait1", "fin_wait2", "time_wait", "close", "close_wait", "last_ack", "listen",
    "closing", "syn_recv",
)  # fmt: skip
_CODES = {f"{number:02X}": name for number, name in enumerate(_STATES, start=1)}
_STATE, _QUEUES = 3, 4  # columns
_EMPTY = "00000000:00000000"


def parse(text: str) -> Counter[str]:
    """Return the number of sockets by state, and bytes to send and received.

    The queues of listening sockets count connections instead of bytes and are left out.
    """
    counts: Counter[str] = Counter()
    for state, sending, receiving in guard.readable(text.splitlines()[1:], _socket):
        counts[state] += 1
        counts["tx_queued_bytes"] += sending
        counts["rx_queued_bytes"] += receiving
    return counts


def _socket(line: str) -> tuple[str, int, int]:
    """Return a socket's state, and bytes to send and received."""
    columns = line.split(None, _QUEUES + 1)
    state = _CODES.get(columns[_STATE]) if len(columns) > _QUEUES else None
    if state is None:
        raise CollectorError(f"tcp: unexpected line {line[:80]!r}")
    if state == "listen" or (queues := columns[_QUEUES]) == _EMPTY:
        return state, 0, 0
    sending, _, receiving = queues.partition(":")
    try:
        return state, parse_hex(sending), parse_hex(receiving)
    except ValueError as error:
        raise CollectorError(f"tcp: {error}") from error


class TcpStat:
    """The `tcpstat` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = netroot.directory(machine)

    def collect(self) -> Iterator[Family]:
        """Read the sources; a kernel may lack IPv6."""
        texts = [host.read_optional(self._directory / file) for file in ("tcp", "tcp6")]
        if not any(texts):
            raise SourceAbsentError(f"{self._directory}: neither tcp nor tcp6")
        total: Counter[str] = Counter()
        for text in texts:
            total.update(parse(text or ""))
        names = dict.fromkeys((*_STATES, "rx_queued_bytes", "tx_queued_bytes"))
        rows = (((name,), float(total[name])) for name in names)
        yield METRICS.family("node_tcp_connection_states", rows)


ENTRY = Entry(
    build=lambda host, _: TcpStat(host), metrics=METRICS, about="TCP sockets by state", on=False
)
