"""What <procfs>/cpuinfo says about each CPU, as the `cpu` collector exports it on request."""

import re
from collections.abc import Iterator

from collectors import catalog
from collectors.numerals import parse_float
from collectors.sample import CollectorError, Family

Block = dict[str, str]
"""The `key : value` lines of one CPU."""

_INFO = (
    "physical id", "core id", "processor", "vendor_id", "cpu family", "model", "model name", "microcode", "stepping",
    "cache size",
)  # fmt: skip
_PLACE = ("physical id", "core id", "processor")


def blocks(text: str) -> list[Block]:
    """One block a CPU. Lines before the first `processor` line (s390) and machine-wide blocks (ARM's) are left out."""
    found: list[Block] = []
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        key = key.strip()
        if not colon:
            continue
        if key == "processor":
            found.append({})
        if found:
            found[-1].setdefault(key, value.strip())
    if not found:
        raise CollectorError("cpuinfo: no CPU in it")
    return found


def info(cpus: list[Block]) -> Family:
    """One sample a CPU, all in its labels; what the architecture does not tell is an empty label."""
    return catalog.family(
        "node_cpu_info", (([cpu.get(key, "") for key in _INFO], 1.0) for cpu in cpus)
    )


def frequency(cpus: list[Block]) -> Iterator[Family]:
    """The frequency of each CPU whose block has one."""
    try:
        rows = [
            ([cpu.get(key, "") for key in _PLACE], parse_float(cpu["cpu MHz"]) * 1e6)
            for cpu in cpus
            if "cpu MHz" in cpu
        ]
    except ValueError as error:
        raise CollectorError(f"cpuinfo: cpu MHz: {error}") from error
    if rows:
        yield catalog.family("node_cpu_frequency_hertz", rows)


def features(cpus: list[Block], field: str, include: str) -> Iterator[Family]:
    """The first CPU's `flags` or `bugs` that match; nothing without a pattern."""
    if include:
        found = [
            word
            for word in dict.fromkeys(cpus[0].get(field, "").split())
            if re.search(include, word)
        ]
        if found:
            yield catalog.family(
                f"node_cpu_{field.removesuffix('s')}_info", (((word,), 1.0) for word in found)
            )
