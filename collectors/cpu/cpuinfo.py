"""CPU facts from <procfs>/cpuinfo, or py-cpuinfo where that lacks them; the `cpu` collector exports them on request."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from collectors.interface import guard, host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_float
from plimsoll import re2

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

_MOST_HERTZ = 1e12
Block = dict[str, str]
"""The `key : value` lines of one CPU."""

_INFO = (
    "physical id", "core id", "processor", "vendor_id", "cpu family", "model", "model name", "microcode", "stepping",
    "cache size",
)  # fmt: skip
_PLACE = ("physical id", "core id", "processor")
_KIND = ("model name", "CPU implementer", "CPU variant", "CPU part", "uarch")


# Names of the same fields on other architectures, by x86's: s390, POWER, ARM, RISC-V, LoongArch, MIPS.
_SPELLINGS = {
    "cpu number": "processor",
    "vendor": "vendor_id",
    "cpu": "vendor_id",
    "system type": "vendor_id",
    "CPU Family": "cpu family",
    "Model Name": "model name",
    "cpu model": "model name",
    "isa": "model name",
    "Processor": "model name",
    "hart": "core id",
    "clock": "cpu MHz",
    "cpu MHz dynamic": "cpu MHz",
    "Features": "flags",
    "features": "flags",
}
_BOOT = "sys/kernel/random/boot_id"
_FACTS = {"brand_raw": "model name", "vendor_id_raw": "vendor_id"}


def blocks(text: str) -> list[Block]:
    """Return one block per CPU, which begins with its number; what precedes the first block belongs to all.

    Text after an empty line that is not a block describes the machine (ARM, POWER), and is ignored.
    """
    common: Block = {}
    cpus: list[Block] = []
    current: Block | None = common
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        key = key.strip()
        key = _SPELLINGS.get(key, key)
        if not line.strip():
            current = None if cpus else common
        elif not colon:
            guard.skip(f"cpuinfo: unexpected line {line[:80]!r}", *(m.name for m in METRICS))
        elif key == "processor":
            current = {**common, key: value.strip()}
            cpus.append(current)
        elif current is not None:
            current.setdefault(key, value.strip())
    if not cpus:
        raise CollectorError("cpuinfo: no CPU in it")
    return cpus


def lacks(cpus: list[Block]) -> bool:
    """Return whether py-cpuinfo may know what this architecture's cpuinfo lacks: ARM's has no model, RISC-V's no flags."""
    return not cpus[0].get("model name") or not cpus[0].get("flags")


def completed(cpus: list[Block], facts: Mapping[str, str]) -> list[Block]:
    """Return the blocks with missing facts added; unchanged if there are different kinds of CPUs."""
    kinds = {tuple(cpu.get(key, "") for key in _KIND) for cpu in cpus}
    return cpus if len(kinds) > 1 else [{**facts, **_nonempty(cpu)} for cpu in cpus]


def _nonempty(cpu: Block) -> Block:
    return {key: value for key, value in cpu.items() if value}


def info(cpus: list[Block]) -> Family:
    """Yield one sample per CPU with everything in its labels; unknown values are empty."""
    return METRICS.family(
        "node_cpu_info", (([cpu.get(key, "") for key in _INFO], 1.0) for cpu in cpus)
    )


def frequency(cpus: list[Block]) -> Iterator[Family]:
    """Return the frequency of each CPU whose block has one."""
    rows: list[tuple[list[str], float]] = []
    for cpu in cpus:
        if "cpu MHz" not in cpu:
            continue
        try:
            hertz = _hertz(cpu["cpu MHz"])
        except ValueError as error:
            guard.skip(f"cpuinfo cpu MHz: {error}", "node_cpu_frequency_hertz")
            continue
        rows.append(([cpu.get(key, "") for key in _PLACE], hertz))
    if rows:
        yield METRICS.family("node_cpu_frequency_hertz", rows)


def _hertz(megahertz: str) -> float:
    """Return a frequency. Raises ValueError."""
    value = parse_float(megahertz.removesuffix("MHz")) * 1e6
    if not 0 <= value < _MOST_HERTZ:
        raise ValueError(f"no frequency: {megahertz[:40]!r}")
    return value


def features(cpus: list[Block], field: str, include: str) -> Iterator[Family]:
    """Return the first CPU's `flags` or `bugs` that match; none without a pattern."""
    if include:
        pattern = re2.compiled(include)
        words = dict.fromkeys(cpus[0].get(field, "").split())
        matching = [word for word in words if pattern.search(word)]
        if matching:
            yield METRICS.family(
                f"node_cpu_{field.removesuffix('s')}_info", (((word,), 1.0) for word in matching)
            )


def ask_library() -> Mapping[str, Any]:
    """Return py-cpuinfo's result; empty if it is not installed. It runs programs such as lscpu and takes one to two seconds."""
    try:
        import cpuinfo  # type: ignore[import-untyped]
    except ImportError:
        return {}
    try:
        answer: Mapping[str, Any] = cpuinfo.get_cpu_info()
    except (OSError, ValueError):  # no process can be started, or its output is invalid
        return {}
    return answer


class CpuLibrary:
    """Facts about the CPU under the names of <procfs>/cpuinfo. The library is called once, and only if needed."""

    def __init__(
        self,
        procfs: Path,
        *,
        query: Callable[[], Mapping[str, Any]] = ask_library,
        own: Path | None = None,
    ) -> None:
        """`own`: the procfs of the running kernel."""
        self._procfs = procfs
        self._own = host.Host().procfs if own is None else own
        self._query = query

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """Return model name, vendor and flags as far as known; none for another machine's procfs."""
        if not self._is_of_this_machine():
            return {}
        answer = self._query()
        facts = {key: str(answer[name]) for name, key in _FACTS.items() if answer.get(name)}
        if flags := answer.get("flags"):
            facts["flags"] = " ".join(map(str, flags))
        return facts

    def _is_of_this_machine(self) -> bool:
        boot = host.read_optional(self._procfs / _BOOT)
        return boot is not None and boot == host.read_optional(self._own / _BOOT)
