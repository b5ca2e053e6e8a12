"""CPU facts from py-cpuinfo, for architectures whose <procfs>/cpuinfo lacks them."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from collectors.interface import host

_BOOT = "sys/kernel/random/boot_id"
_FACTS = {"brand_raw": "model name", "vendor_id_raw": "vendor_id"}


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
