"""Driver, link modes and statistics of network devices by ethtool's ioctl, through pyroute2.

Imported on first use, see `routenetlink`. No privilege is needed.
"""

import ctypes
import errno
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from collectors.shared.routenetlink import pyroute2
from collectors.shared.sysfs import decode

T = TypeVar("T")

# Commands and layouts of linux/ethtool.h that pyroute2 lacks or for which it trusts the driver too much.
_GET_DRIVER, _GET_STRINGS, _GET_STATISTICS = 0x03, 0x1B, 0x1D
_STATISTICS = 1  # ETH_SS_STATS: the string set with the names of statistics
_DRIVER = struct.Struct("=I32s32s32s32s32s32x")  # command, driver, version, firmware, bus, ROM
_STRINGS = struct.Struct("=III")  # command, set, count
_COUNTS = struct.Struct("=II")  # command, count
_NAME, _COUNT = 32, 8
# A driver may have more queues, and so more statistics, when it fills a buffer than when it reported the size; only
# recent kernels compare both and then return none.
_SPARE = 512
_MODE = re.compile(r"(?P<speed>\d+)base(?P<medium>\w+)(?:/(?P<duplex>Half|Full))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver of a device."""

    bus: str
    name: str
    expansion_rom: str
    firmware: str
    version: str


class Modes(frozenset[str]):
    """Link modes by the kernel's names: `1000baseT/Full`, `TP`, `Autoneg`, `Pause`, ..."""

    __slots__ = ()

    def speeds(self) -> Iterator[tuple[str, str, int]]:
        """(duplex, mode, megabits per second)."""
        for match in filter(None, map(_MODE.fullmatch, sorted(self))):
            duplex = (match["duplex"] or "full").lower()
            yield duplex, f"{match['speed']}base{match['medium']}", int(match["speed"])


@dataclass(frozen=True, slots=True)
class Link:
    """Supported and advertised link modes, and whether autonegotiation is on."""

    supported: Modes
    advertised: Modes
    autonegotiates: bool


class Questions(Protocol):
    """Queries about a device. They return None if its driver does not answer."""

    def driver(self, device: str) -> Driver | None: ...
    def link(self, device: str) -> Link | None: ...
    def statistics(self, device: str) -> Sequence[tuple[str, int]] | None: ...


class Ioctl:
    """Queries the kernel."""

    def __init__(self) -> None:
        self._library = pyroute2("pyroute2.ethtool.ioctl")
        self._tool = self._library.IoctlEthtool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tool.close()

    def driver(self, device: str) -> Driver | None:
        """Return the driver of a device."""
        raw = self._query(device, lambda: self._filled(_DRIVER.pack(_GET_DRIVER, *[b""] * 5), 0))
        if raw is None:
            return None
        _, *texts = _DRIVER.unpack(raw)
        name, version, firmware, bus, rom = map(_text, texts)
        return Driver(bus, name, rom, firmware, version)

    def link(self, device: str) -> Link | None:
        """Return the link modes, of all that the kernel knows, not only the 32 oldest."""
        settings = self._query(device, self._tool.get_link_settings)
        if settings is None:
            return None
        supported, advertised, _ = self._tool.get_link_mode_masks(settings)
        return Link(self._modes(supported), self._modes(advertised), bool(settings.autoneg))

    def statistics(self, device: str) -> Sequence[tuple[str, int]] | None:
        """Return the driver's counters in its order. Names may occur twice."""
        return self._query(device, self._statistics)

    def _statistics(self) -> list[tuple[str, int]]:
        size = self._tool.get_stringset_length(_STATISTICS)
        most = size + _SPARE
        names = self._filled(_STRINGS.pack(_GET_STRINGS, _STATISTICS, size), most * _NAME)
        counts = self._filled(_COUNTS.pack(_GET_STATISTICS, size), most * _COUNT)
        (*_, named), (_, counted) = _STRINGS.unpack_from(names), _COUNTS.unpack_from(counts)
        if named != counted or counted > most:
            raise OSError(errno.EAGAIN, "the statistics changed while they were read")
        values = struct.unpack_from(f"={counted}Q", counts, _COUNTS.size)
        starts = range(_STRINGS.size, _STRINGS.size + named * _NAME, _NAME)
        return [(_text(names[n : n + _NAME]), v) for n, v in zip(starts, values, strict=True)]

    def _filled(self, question: bytes, most: int) -> bytes:
        """Return the request overwritten and extended by the kernel's reply."""
        buffer = ctypes.create_string_buffer(question, len(question) + most)
        self._tool.ifreq.gstrings = ctypes.addressof(buffer)
        self._tool.ioctl()
        return buffer.raw

    def _query(self, device: str, question: Callable[[], T]) -> T | None:
        try:
            self._tool.change_ifname(device)
            return question()
        except (OSError, self._library.EthtoolError):
            return (
                None  # device removed, or not supported by its driver: other devices are unaffected
            )

    def _modes(self, words: Sequence[int]) -> Modes:
        return Modes(bit.name for bit in self._tool.get_link_mode_bits(words))


def _text(raw: bytes) -> str:
    return decode(raw.partition(b"\0")[0])
