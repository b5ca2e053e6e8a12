"""System time, time zone and clock sources."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family

_SOURCES = "<sysfs>/devices/system/clocksource/clocksource*"
METRICS = Table(
    Metric(
        "node_time_seconds",
        "gauge",
        "System time in seconds since epoch (1970).",
        "clock_gettime(2)",
        unit="seconds",
    ),
    Metric(
        "node_time_zone_offset_seconds",
        "gauge",
        "System time zone offset in seconds.",
        "localtime(3)",
        ("time_zone",),
        "seconds",
    ),
    Metric(
        "node_time_clocksource_available_info",
        "gauge",
        "Available clocksources read from '/sys/devices/system/clocksource'.",
        f"{_SOURCES}/available_clocksource",
        ("device", "clocksource"),
    ),
    Metric(
        "node_time_clocksource_current_info",
        "gauge",
        "Current clocksource read from '/sys/devices/system/clocksource'.",
        f"{_SOURCES}/current_clocksource",
        ("device", "clocksource"),
    ),
)

_CLOCKSOURCES = ("node_time_clocksource_available_info", "node_time_clocksource_current_info")
_NANOSECONDS = 1_000_000_000
_PREFIX = "clocksource"


class Time:
    """The `time` collector."""

    def __init__(
        self,
        machine: host.Host,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        local: Callable[[float], time.struct_time] = time.localtime,
    ) -> None:
        self._directory = machine.sysfs / "devices/system/clocksource"
        self._now_ns = now_ns
        self._local = local
        self._devices: list[tuple[str, Path]] = []

    def collect(self) -> Iterator[Family]:
        """Read the clock and its sources."""
        seconds = self._now_ns() / _NANOSECONDS
        yield METRICS.single("node_time_seconds", seconds)
        local = self._local(seconds)
        offset = ((local.tm_zone,), float(local.tm_gmtoff))
        yield METRICS.family("node_time_zone_offset_seconds", [offset])
        yield from self._clocksources()

    def _clocksources(self) -> Iterator[Family]:
        available: list[tuple[tuple[str, str], float]] = []
        current: list[tuple[tuple[str, str], float]] = []
        # Linux creates one such device, at boot, so the list is read once.
        self._devices = self._devices or self._listed()
        for device, path in self._devices:
            try:
                names = host.read(path / "available_clocksource").split()
                name = host.read(path / "current_clocksource").strip()
            except CollectorError as error:
                guard.skip(error, *_CLOCKSOURCES)
                continue
            available += [((device, name), 1.0) for name in dict.fromkeys(names)]
            current.append(((device, name), 1.0))
        for metric, rows in zip(_CLOCKSOURCES, (available, current), strict=True):
            if rows:
                yield METRICS.family(metric, rows)

    def _listed(self) -> list[tuple[str, Path]]:
        """Return number and directory of every clocksource device."""
        try:
            names = sorted(path.name for path in self._directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CollectorError(f"{self._directory}: {error.strerror}") from error
        numbers = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
        return [(n, self._directory / f"{_PREFIX}{n}") for n in numbers if n.isdigit()]


ENTRY = Entry(
    build=lambda host, _: Time(host), metrics=METRICS, about="system time, time zone, clock source"
)
