"""Virtual memory statistics from <procfs>/vmstat, selected by a regular expression; untyped, as in the kernel."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_float
from collectors.shared.formats.patterns import regexp
from plimsoll import re2
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


def parse(text: str, fields: re2.Pattern) -> Iterator[Family]:
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
    return match.group(1), _value(match.group(1), match.group(2))


def _value(field: str, text: str) -> float:
    try:
        return parse_float(text)
    except ValueError as error:
        raise CollectorError(f"vmstat: {field}: {error}") from error


class VmStat:
    """The `vmstat` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._path = machine.procfs / "vmstat"
        self._fields = re2.compiled(options.vmstat_fields)
        self._names: list[str] = []
        self._selected: list[tuple[int, str]] = []

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        text = host.read(self._path)
        words = text.split()
        names, numbers = words[::2], words[1::2]
        # The names are constant while a kernel runs; comparing them is much cheaper than matching each line.
        digits = "".join(numbers)
        if (
            names == self._names
            and len(numbers) == len(names)
            and digits.isascii()
            and digits.isdigit()
        ):
            for index, metric in self._selected:
                yield METRICS.single(metric, _value(names[index], numbers[index]))
            return
        self._names = []
        yield from parse(text, self._fields)
        chosen = enumerate(names)
        self._selected = [
            (n, f"node_vmstat_{name}") for n, name in chosen if self._fields.search(name)
        ]
        self._names = names


ENTRY = Entry(build=VmStat, metrics=METRICS, about="virtual memory statistics", options=Options)
