"""Parses tables with a column per CPU: <procfs>/interrupts and <procfs>/softirqs."""

from collections.abc import Iterator, Sequence

from collectors.interface import guard
from collectors.interface.sample import CollectorError
from collectors.shared.formats.numerals import parse_uint, parse_uints

Row = tuple[str, list[str]]
"""A row's name and cells: counts, then descriptions."""


def split(source: str, text: str) -> tuple[list[str], Iterator[Row]]:
    """Return the CPU numbers of the header, and the rows. Offline CPUs may have no column."""
    header, _, body = text.partition("\n")
    cpus = [word.removeprefix("CPU") for word in header.split()]
    if not cpus or not all(cpu.isascii() and cpu.isdigit() for cpu in cpus):
        raise CollectorError(f"{source}: no CPUs in the first line")
    return list(dict.fromkeys(cpus)), _rows(body)


def counts(source: str, name: str, cells: list[str]) -> Sequence[int | None]:
    """Return the numbers of a row; None for a cell that cannot be read."""
    try:
        return parse_uints(cells)
    except ValueError:
        return [_count(source, name, cell) for cell in cells]


def _count(source: str, name: str, cell: str) -> int | None:
    try:
        return parse_uint(cell)
    except ValueError as error:
        guard.skip(f"{source}: {name[:40]}: {error}")
        return None


def _rows(body: str) -> Iterator[Row]:
    for line in body.split("\n"):
        # There may be no space between the colon and a count that fills its column.
        name, colon, rest = line.partition(":")
        if colon:
            yield name.strip(), rest.split()
