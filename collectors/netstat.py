"""Network protocol statistics from <procfs>/net/netstat, snmp and snmp6, selected by a regular expression.

They are untyped, as in the kernel: most are counters, some (such as Tcp_CurrEstab) are not.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_float
from collectors.shared.formats.patterns import regexp
from plimsoll import re2
from plimsoll.flags import option

_FILES = {
    "netstat": ("TcpExt", "IpExt", "MPTcpExt"),
    "snmp": ("Ip", "IcmpMsg", "Icmp", "Tcp", "UdpLite", "Udp"),
    "snmp6": ("Ip6", "Icmp6", "UdpLite6", "Udp6"),
}


def _row(protocol: str, file: str) -> Metric:
    return Metric(
        f"node_netstat_{protocol}_<field>",
        "untyped",
        f"Statistic {protocol}<field>.",  # without the underscore, as node_exporter has it
        f"<procfs>/1/net/{file}",
    )


METRICS = Table(
    *(_row(protocol, file) for file, protocols in _FILES.items() for protocol in protocols),
    Metric(
        "node_netstat_<field>",  # of a protocol that kernels may add
        "untyped",
        "Statistic <field>.",
        "<procfs>/1/net/netstat, snmp, snmp6",
    ),
)

_DEFAULT_FIELDS = (
    "^(.*_(InErrors|InErrs)|Ip_Forwarding|Ip(6|Ext)_(InOctets|OutOctets)|Icmp6?_(InMsgs|OutMsgs)"
    "|TcpExt_(Listen.*|Syncookies.*|TCPSynRetrans|TCPTimeouts|TCPOFOQueue|TCPRcvQDrop)"
    "|Tcp_(ActiveOpens|InSegs|OutSegs|OutRsts|PassiveOpens|RetransSegs|CurrEstab)"
    "|Udp6?_(InDatagrams|OutDatagrams|NoPorts|RcvbufErrors|SndbufErrors))$"
)
_NAME = re.compile(r"\w+", re.ASCII)


class Columns(NamedTuple):
    """Layout of a line of numbers: the expected names, and which of them become which metric."""

    protocol: str
    width: int
    selected: tuple[tuple[int, str], ...]
    odd: tuple[str, ...] = ()
    """Names that are no names."""


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    netstat_fields: str = option(
        "collector.netstat.fields",
        _DEFAULT_FIELDS,
        "regular expression of the fields to export, written as Protocol_Field",
        metavar="REGEXP",
        parse=regexp,
    )


class Picker:
    """Finds the selected fields and caches their positions: names are constant while a kernel runs."""

    def __init__(self, fields: str) -> None:
        pattern = re2.compiled(fields)

        def selected(key: str) -> bool:
            return _NAME.fullmatch(key) is not None and pattern.search(key) is not None

        def columns(header: str) -> Columns:
            protocol, *names = header.split() or [""]
            keys = [f"{protocol.removesuffix(':')}_{name}" for name in names]
            picked = ((n, f"node_netstat_{key}") for n, key in enumerate(keys, 1) if selected(key))
            odd = tuple(key[:40] for key in keys if _NAME.fullmatch(key) is None)
            return Columns(protocol, len(names) + 1, tuple(picked), odd)

        def metric(key: str) -> str | None:
            protocol, six, name = key.partition("6")
            joined = f"{protocol}{six}_{name}"
            return f"node_netstat_{joined}" if six and selected(joined) else None

        self.columns = lru_cache(maxsize=64)(columns)
        self.metric = lru_cache(maxsize=1024)(metric)


@guard.some
def parse_pairs(text: str, picker: Picker) -> Iterator[tuple[str, float]]:
    """Yield metrics and values from netstat and snmp: a line of names, then one of numbers, per protocol."""
    lines = iter(text.splitlines())
    header = next(lines, None)
    while header is not None:
        line = next(lines, "")
        if line.partition(" ")[0] != header.partition(" ")[0]:
            # Names without numbers, as in some containers: the next line has names again.
            guard.skip(f"netstat: no numbers for the names {header[:40]!r}")
            header = line or None
            continue
        yield from _pair(picker.columns(header), header, line.split())
        header = next(lines, None)


def _pair(columns: Columns, header: str, numbers: list[str]) -> Iterator[tuple[str, float]]:
    if len(numbers) != columns.width or not columns.protocol.endswith(":"):
        guard.skip(f"netstat: names and numbers do not fit: {header[:40]!r}")
        return
    for name in columns.odd:
        guard.skip(f"netstat: unexpected name {name!r}")
    for index, name in columns.selected:
        try:
            yield name, parse_float(numbers[index])
        except ValueError as error:
            guard.skip(f"netstat: {error}", name)


@guard.some
def parse_lines(text: str, picker: Picker) -> Iterator[tuple[str, float]]:
    """Yield metrics and values from snmp6, one per line. Lines that are not about IPv6 are ignored."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 2:
            guard.skip(f"snmp6: unexpected line {line[:40]!r}")
            continue
        name = picker.metric(fields[0])
        if name is not None and (value := _number(name, fields[1])) is not None:
            yield name, value


def families(counters: Iterable[tuple[str, float]]) -> Iterator[Family]:
    """Return a family per metric."""
    seen: set[str] = set()
    for name, value in counters:
        if name in seen:
            guard.skip(f"netstat: {name} appears twice", name)
            continue
        seen.add(name)
        yield METRICS.single(name, value)


def _number(name: str, text: str) -> float | None:
    try:
        return parse_float(text)
    except ValueError as error:
        guard.skip(f"netstat: {error}", name)
        return None


class NetStat:
    """The `netstat` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = netroot.directory(machine)
        self._picker = Picker(options.netstat_fields)
        self._names: list[str] = []
        self._selected: list[tuple[int, str]] = []

    def collect(self) -> Iterator[Family]:
        """Read the sources. Without IPv6 there is no snmp6."""
        return families(self._read())

    def _read(self) -> Iterator[tuple[str, float]]:
        for file, text in host.read_each(self._directory, tuple(_FILES)).items():
            read = self._ipv6(text) if file == "snmp6" else parse_pairs(text, self._picker)
            yield from guard.attempt(read)

    def _ipv6(self, text: str) -> Iterator[tuple[str, float]]:
        words = text.split()
        names, numbers = words[::2], words[1::2]
        # Names are constant while a kernel runs; comparing them is cheaper than looking each up.
        if names != self._names or len(numbers) != len(names):
            self._names = []
            before = guard.skipped()
            yield from parse_lines(text, self._picker)
            if guard.skipped() > before:
                return
            metrics = enumerate(map(self._picker.metric, names))
            self._selected = [(index, metric) for index, metric in metrics if metric is not None]
            self._names = names
            return
        for index, metric in self._selected:
            try:
                yield metric, parse_float(numbers[index])
            except ValueError as error:
                guard.skip(f"netstat: {error}", metric)


ENTRY = Entry(
    build=NetStat, metrics=METRICS, about="statistics of network protocols", options=Options
)
