"""Kernel, architecture and host name of the machine, as uname(2) tells them."""

import os
from collections.abc import Callable, Iterator

from collectors.base import host
from collectors.base.metric import Metric, Table
from collectors.base.sample import Family

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
        self, machine: host.Host, *, ask: Callable[[], os.uname_result] = os.uname
    ) -> None:
        self._ask = ask
        self._domain = machine.procfs / "sys/kernel/domainname"

    def collect(self) -> Iterator[Family]:
        """Ask the kernel now. Python leaves out one word of its answer, the NIS domain; procfs has that."""
        told = self._ask()
        domain = (host.read_optional(self._domain) or "").strip()
        words = (told.sysname, told.release, told.version, told.machine, told.nodename, domain)
        yield METRICS.family("node_uname_info", (([_printable(word) for word in words], 1.0),))


def _printable(word: str) -> str:
    """A host name is any bytes; Python keeps those that are no UTF-8 as half characters, which nothing could print."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
