"""CPU lists in the kernel's format: `0-3,8`."""

from collectors.interface.sample import CollectorError
from collectors.shared.formats.numerals import parse_uint

_MAX_CPUS = 1 << 16


def parse_cpu_list(text: str) -> list[int]:
    """Return the CPUs of a list in its order."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        try:
            begin = parse_uint(first)
            end = parse_uint(last) if dash else begin
        except ValueError as error:
            raise CollectorError(f"CPU list: {error}") from error
        if not begin <= end < _MAX_CPUS or len(cpus) > _MAX_CPUS:
            raise CollectorError(f"CPU list: no range {part[:40]!r}")
        cpus.extend(range(begin, end + 1))
    return cpus
