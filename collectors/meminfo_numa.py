"""Memory and allocation statistics of each NUMA node, from <sysfs>/devices/system/node/node*/{meminfo,numastat}."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared.formats.numerals import parse_uint

_NODES = "<sysfs>/devices/system/node/node*"
METRICS = Table(
    Metric(
        "node_memory_numa_<field>_total",
        "counter",
        "Memory information field <field>_total.",
        f"{_NODES}/numastat",
        ("node",),
    ),
    # In bytes if the kernel says kB, else in pages. node_exporter adds no suffix.
    Metric(
        "node_memory_numa_<field>",
        "gauge",
        "Memory information field <field>.",
        f"{_NODES}/meminfo",
        ("node",),
    ),
)

_MEMINFO = re.compile(r"Node (\d+) (\w+)(?:\((\w+)\))?: +(\d+)( kB)?", re.ASCII)
_NUMASTAT = re.compile(r"(\w+) (\d+)", re.ASCII)
_KIB = 1024

Reading = tuple[str, float]
"""Metric and value."""


def parse_meminfo(text: str) -> Iterator[Reading]:
    """Yield the lines of a node's meminfo; `Active(anon)` becomes Active_anon."""
    return iter(guard.readable(filter(None, text.splitlines()), _memory))


def _memory(line: str) -> Reading:
    if (match := _MEMINFO.fullmatch(line.rstrip())) is None:
        raise CollectorError(f"node meminfo: unexpected line {line[:80]!r}")
    _, field, detail, amount, unit = match.groups()
    name = f"{field}_{detail}" if detail else field
    return f"node_memory_numa_{name}", _number(amount) * (_KIB if unit else 1)


def parse_numastat(text: str) -> Iterator[Reading]:
    """Yield the lines of a node's numastat."""
    return iter(guard.readable(filter(None, text.splitlines()), _statistic))


def _statistic(line: str) -> Reading:
    if (match := _NUMASTAT.fullmatch(line.rstrip())) is None:
        raise CollectorError(f"numastat: unexpected line {line[:80]!r}")
    return f"node_memory_numa_{match.group(1)}_total", _number(match.group(2))


def _number(text: str) -> float:
    try:
        return float(parse_uint(text))
    except ValueError as error:
        raise CollectorError(f"NUMA node: {error}") from error


def families(nodes: Iterable[tuple[str, Iterable[Reading]]]) -> Iterator[Family]:
    """Return the readings of all nodes by metric. Of a repeated line, the last one counts."""
    by_metric: dict[str, dict[tuple[str], float]] = {}
    for node, readings in nodes:
        for name, value in readings:
            by_metric.setdefault(name, {})[node,] = value
    for name, samples in by_metric.items():
        yield METRICS.family(name, samples.items())


class MemInfoNuma:
    """The `meminfo_numa` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.sysfs / "devices/system/node"

    def collect(self) -> Iterator[Family]:
        """Read the sources now."""
        nodes = self._nodes()
        if not nodes:
            raise SourceAbsentError(f"{self._directory}: no nodes")
        return families((node, _readings(path)) for node, path in nodes)

    def _nodes(self) -> list[tuple[str, Path]]:
        try:
            names = sorted(path.name for path in self._directory.iterdir())
        except OSError as error:
            kind = SourceAbsentError if isinstance(error, FileNotFoundError) else CollectorError
            raise kind(f"{self._directory}: {error.strerror}") from error
        numbers = (name.removeprefix("node") for name in names if name.startswith("node"))
        return [(n, self._directory / f"node{n}") for n in numbers if n.isdigit()]


def _readings(node: Path) -> Iterator[Reading]:
    for file, parse in (("meminfo", parse_meminfo), ("numastat", parse_numastat)):
        try:
            yield from parse(host.read_optional(node / file) or "")
        except CollectorError as error:
            guard.skip(error)


ENTRY = Entry(
    build=lambda host, _: MemInfoNuma(host),
    metrics=METRICS,
    about="memory statistics of each NUMA node",
    on=False,
)
