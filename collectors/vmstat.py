"""Virtual memory statistics from <procfs>/vmstat, selected by a regular expression; untyped, as in the kernel."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from collectors.interface import guard, host
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


@guard.some
def parse(text: str, fields: re2.Pattern) -> Iterator[Family]:
    """Yield a family per line whose field matches. Of a field that appears twice, the first value counts."""
    seen: set[str] = set()
    for field, value in guard.readable(text.splitlines(), _line):
        if fields.search(field) is None:
            continue
        if field in seen:
            guard.skip(f"vmstat: {field} appears twice", f"node_vmstat_{field}")
            continue
        seen.add(field)
        try:
            yield METRICS.single(f"node_vmstat_{field}", parse_float(value))
        except ValueError as error:
            guard.skip(f"vmstat: {field}: {error}", f"node_vmstat_{field}")


def _line(line: str) -> tuple[str, str]:
    if (match := _LINE.fullmatch(line)) is None:
        raise CollectorError(f"vmstat: unexpected line {line[:80]!r}")
    return match.group(1), match.group(2)


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
                yield METRICS.single(metric, parse_float(numbers[index]))
            return
        self._names = []
        before = guard.skipped()
        yield from parse(text, self._fields)
        if guard.skipped() > before:
            return
        chosen = enumerate(names)
        self._selected = [
            (n, f"node_vmstat_{name}") for n, name in chosen if self._fields.search(name)
        ]
        self._names = names


ENTRY = Entry(build=VmStat, metrics=METRICS, about="virtual memory statistics", options=Options)
