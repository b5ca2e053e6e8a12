"""Virtual memory statistics from <procfs>/vmstat, selected by a regular expression; untyped, as in the kernel."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from collectors.base import host
from collectors.base.metric import Metric, Table
from collectors.base.sample import CollectorError, Family
from collectors.formats.numerals import parse_float
from collectors.formats.patterns import regexp
from plimsoll.flags import option

METRICS = Table(
    Metric(
        "node_vmstat_<field>",
        "untyped",
        "/proc/vmstat information field <field>.",
        "<procfs>/vmstat",
    )
)

_LINE = re.compile(r"(\w+) +(\S+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    vmstat_fields: str = option(
        "collector.vmstat.fields",
        "^(oom_kill|pgpg|pswp|pg.*fault).*",
        "regular expression of the vmstat fields to export",
        metavar="REGEXP",
        parse=regexp,
    )


def parse(text: str, fields: re.Pattern[str]) -> Iterator[Family]:
    """Yield a family per line whose field matches. All lines must be valid, also those not selected."""
    seen: set[str] = set()
    for line in text.splitlines():
        field, value = _line(line)
        if fields.search(field) is None:
            continue
        if field in seen:
            raise CollectorError(f"vmstat: {field} appears twice")
        seen.add(field)
        yield METRICS.single(f"node_vmstat_{field}", value)


def _line(line: str) -> tuple[str, float]:
    if (match := _LINE.fullmatch(line)) is None:
        raise CollectorError(f"vmstat: unexpected line {line[:80]!r}")
    try:
        return match.group(1), parse_float(match.group(2))
    except ValueError as error:
        raise CollectorError(f"vmstat: {match.group(1)}: {error}") from error


class VmStat:
    """The `vmstat` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._path = machine.procfs / "vmstat"
        self._fields = re.compile(options.vmstat_fields)

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path), self._fields)
