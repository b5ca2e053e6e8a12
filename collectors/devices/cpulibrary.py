"""What py-cpuinfo finds out about the CPU below this program, for architectures whose <procfs>/cpuinfo does not say it."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from collectors.base import host

_BOOT = "sys/kernel/random/boot_id"
_FACTS = {"brand_raw": "model name", "vendor_id_raw": "vendor_id"}


def ask_library() -> Mapping[str, Any]:
    """py-cpuinfo's answer; nothing where it is not installed. It starts programs such as lscpu, and takes a second or two."""
    try:
        import cpuinfo  # type: ignore[import-untyped]
    except ImportError:
        return {}
    try:
        answer: Mapping[str, Any] = cpuinfo.get_cpu_info()
    except (OSError, ValueError):  # no process can be started, or what it printed is no JSON
        return {}
    return answer


class CpuLibrary:
    """Facts about the CPU in the words of <procfs>/cpuinfo. The library is asked once, and only if need be."""

    def __init__(
        self,
        procfs: Path,
        *,
        ask: Callable[[], Mapping[str, Any]] = ask_library,
        own: Path | None = None,
    ) -> None:
        """`own` is the procfs of the kernel that this program runs on."""
        self._procfs = procfs
        self._own = host.Host().procfs if own is None else own
        self._ask = ask

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """Model name, vendor and flags, as far as they are known. None at all about another machine's procfs."""
        if not self._is_of_this_machine():
            return {}
        answer = self._ask()
        facts = {key: str(answer[name]) for name, key in _FACTS.items() if answer.get(name)}
        if flags := answer.get("flags"):
            facts["flags"] = " ".join(map(str, flags))
        return facts

    def _is_of_this_machine(self) -> bool:
        boot = host.read_optional(self._procfs / _BOOT)
        return boot is not None and boot == host.read_optional(self._own / _BOOT)
