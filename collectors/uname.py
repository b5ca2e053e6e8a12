"""Kernel, architecture and host name from uname(2)."""

import os
from collections.abc import Callable, Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family

METRICS = Table(
    Metric(
        "node_uname_info",
        "gauge",
        "Labeled system information as provided by the uname system call.",
        "uname(2)",
        ("sysname", "release", "version", "machine", "nodename", "domainname"),
    )
)


class Uname:
    """The `uname` collector."""

    def __init__(
        self, machine: host.Host, *, uname: Callable[[], os.uname_result] = os.uname
    ) -> None:
        self._uname = uname
        self._domain = machine.procfs / "sys/kernel/domainname"

    def collect(self) -> Iterator[Family]:
        """Query the kernel. Python omits the NIS domain, which is read from procfs."""
        answer = self._uname()
        domain = (host.read_guarded(self._domain) or "").strip()
        words = (
            answer.sysname,
            answer.release,
            answer.version,
            answer.machine,
            answer.nodename,
            domain,
        )
        yield METRICS.family("node_uname_info", (([_printable(word) for word in words], 1.0),))


def _printable(word: str) -> str:
    """Decode a host name: it may be any bytes, which Python returns as surrogates that cannot be encoded."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


ENTRY = Entry(
    build=lambda host, _: Uname(host), metrics=METRICS, about="kernel, architecture, host name"
)
