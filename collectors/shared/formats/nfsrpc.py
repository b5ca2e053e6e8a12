"""Parses <procfs>/net/rpc/nfs and nfsd: lines of a key and numbers, and the numbers' meaning in NFS versions 2 and 3."""

from collections.abc import Iterator, Mapping, Sequence

from collectors.interface import guard
from collectors.interface.sample import CollectorError
from collectors.shared.formats.numerals import parse_uint

Row = tuple[tuple[str, str], float]
"""(protocol version, procedure) and its count."""

_V2 = "Null GetAttr SetAttr Root Lookup ReadLink Read WrCache Write Create Remove Rename Link SymLink MkDir RmDir ReadDir FsStat"
_V3 = (
    "Null GetAttr SetAttr Lookup Access ReadLink Read Write Create MkDir SymLink MkNod Remove RmDir Rename Link ReadDir "
    "ReadDirPlus FsStat FsInfo PathConf Commit"
)
V2, V3 = _V2.split(), _V3.split()
"""Procedures in the order of their numbers."""
_FEW = 2
_WITH_FRACTIONS = frozenset({"th"})


def parse(source: str, text: str) -> dict[str, Sequence[int]]:
    """Return the numbers by key. Of `th`, which has fractions, only the first two."""
    lines_by_key: dict[str, Sequence[int]] = {}
    for line in text.splitlines():
        key, *words = line.split() or [""]
        try:
            lines_by_key[key] = [
                parse_uint(word) for word in words[: 2 if key in _WITH_FRACTIONS else None]
            ]
        except ValueError as error:
            guard.skip(f"{source}: {key[:40]} {error}")
    if not lines_by_key.get("net"):
        if len(lines_by_key) < _FEW:
            raise CollectorError(f"{source}: no line `net`")
        guard.skip(f"{source}: no line `net`")
    return lines_by_key


def numbers(source: str, lines: Mapping[str, Sequence[int]], key: str, count: int) -> Sequence[int]:
    """Return the numbers of a line; empty if the kernel has no such line."""
    values = lines.get(key, ())
    if values and len(values) < count:
        guard.skip(f"{source}: {key} has {len(values)} numbers, not {count}")
        return ()
    return values


def procedures(
    source: str, lines: Mapping[str, Sequence[int]], key: str, version: str, names: Sequence[str]
) -> Iterator[Row]:
    """Yield the counts of a line, which begins with their number. Older kernels have fewer procedures; `-` is not exported."""
    if (values := lines.get(key)) is None:
        return
    if len(values) - 1 != (values[0] if values else -1):
        guard.skip(f"{source}: {key} is incomplete")
        return
    for name, value in zip(names, values[1:], strict=False):
        if name != "-":
            yield (version, name), float(value)
