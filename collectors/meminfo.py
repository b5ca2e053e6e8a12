"""Memory statistics from <procfs>/meminfo."""

import re
from collections.abc import Iterator

from collectors import catalog, host
from collectors.numerals import parse_uint
from collectors.sample import CollectorError, Family

_LINE = re.compile(r"(\w+)(?:\((\w+)\))?:\s*(\S+)(?: (kB))?", re.ASCII)
_KIB = 1024


def parse(text: str) -> Iterator[Family]:
    """One family a line; `Active(anon)` becomes Active_anon, and a field in kB is given in bytes and named so."""
    if not text.strip():
        raise CollectorError("meminfo: empty")
    seen: set[str] = set()
    for line in text.splitlines():
        name, value = _field(line)
        if name in seen:
            raise CollectorError(f"meminfo: {name} appears twice")
        seen.add(name)
        yield catalog.single(name, value)


def _field(line: str) -> tuple[str, float]:
    if (match := _LINE.fullmatch(line.rstrip())) is None:
        raise CollectorError(f"meminfo: unexpected line {line[:80]!r}")
    field, detail, amount, unit = match.groups()
    name = f"node_memory_{field}_{detail}" if detail else f"node_memory_{field}"
    try:
        value = float(parse_uint(amount))
    except ValueError as error:
        raise CollectorError(f"meminfo: {field}: {error}") from error
    # HugePages_* count pages and carry no unit.
    return (f"{name}_bytes", value * _KIB) if unit else (name, value)


class MemInfo:
    """The `meminfo` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "meminfo"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))
