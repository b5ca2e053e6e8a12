"""What <procfs>/cpuinfo says about each CPU, as the `cpu` collector exports it on request."""

import re
from collections.abc import Iterator

from collectors.metric import Metric, Table
from collectors.numerals import parse_float
from collectors.sample import CollectorError, Family

_SOURCE = "<procfs>/cpuinfo"
_FEATURE = "The `{}` field of CPU information from /proc/cpuinfo taken from the first core."
METRICS = Table(
    Metric(
        "node_cpu_info",
        "gauge",
        "CPU information from /proc/cpuinfo.",
        _SOURCE,
        (
            *("package", "core", "cpu", "vendor", "family", "model", "model_name", "microcode"),
            *("stepping", "cachesize"),
        ),
    ),
    Metric(
        "node_cpu_frequency_hertz",
        "gauge",
        "CPU frequency in hertz from /proc/cpuinfo.",
        _SOURCE,
        ("package", "core", "cpu"),
        "hertz",
    ),
    Metric("node_cpu_flag_info", "gauge", _FEATURE.format("flags"), _SOURCE, ("flag",)),
    Metric("node_cpu_bug_info", "gauge", _FEATURE.format("bugs"), _SOURCE, ("bug",)),
)

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
    return METRICS.family(
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
        yield METRICS.family("node_cpu_frequency_hertz", rows)


def features(cpus: list[Block], field: str, include: str) -> Iterator[Family]:
    """The first CPU's `flags` or `bugs` that match; nothing without a pattern."""
    if include:
        found = [
            word
            for word in dict.fromkeys(cpus[0].get(field, "").split())
            if re.search(include, word)
        ]
        if found:
            yield METRICS.family(
                f"node_cpu_{field.removesuffix('s')}_info", (((word,), 1.0) for word in found)
            )
