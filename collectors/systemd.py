"""Units of systemd and their state, from its service on the system bus."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, MetricType
from collectors.shared import systembus
from collectors.shared.formats.patterns import regexp
from collectors.shared.systembus import Property, SystemBus
from plimsoll import re2
from plimsoll.flags import option

_SERVICE = "org.freedesktop.systemd1"
_PATH = "/org/freedesktop/systemd1"
_MANAGER = f"{_SERVICE}.Manager"


def _row(name: str, about: str, *labels: str, kind: MetricType = "gauge", unit: str = "") -> Metric:
    return Metric(
        f"node_systemd_{name}", kind, about, "D-Bus: org.freedesktop.systemd1", labels, unit
    )


METRICS = Table(
    _row("unit_state", "Systemd unit", "name", "state", "type"),
    _row("units", "Summary of systemd unit states", "state"),
    _row("system_running", "Whether the system is operational (see 'systemctl is-system-running')"),
    _row("version", "Detected systemd version", "version"),
    _row("virtualization_info", "Detected virtualization technology", "virtualization_type"),
    _row("unit_start_time_seconds", "Start time of the unit since unix epoch in seconds.", "name", unit="seconds"),
    _row("unit_tasks_current", "Current number of tasks per Systemd unit", "name"),
    _row("unit_tasks_max", "Maximum number of tasks per Systemd unit", "name"),
    _row("service_restart_total", "Service unit count of Restart triggers", "name", kind="counter"),
    _row("timer_last_trigger_seconds", "Seconds since epoch of last trigger.", "name", unit="seconds"),
    _row("socket_accepted_connections_total", "Total number of accepted socket connections", "name", kind="counter"),
    _row("socket_current_connections", "Current number of socket connections", "name"),
    _row("socket_refused_connections_total", "Total number of refused socket connections", "name", kind="counter"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    systemd_include: str = option(
        "collector.systemd.unit-include",
        ".+",
        "export only units whose whole name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    systemd_exclude: str = option(
        "collector.systemd.unit-exclude",
        r".+\.(automount|device|mount|scope|slice)",
        "leave out units whose whole name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    systemd_tasks: bool = option(
        "collector.systemd.enable-task-metrics",
        False,
        "also export the number of tasks of services",
    )
    systemd_restarts: bool = option(
        "collector.systemd.enable-restarts-metrics", False, "also export restarts of services"
    )
    systemd_start_times: bool = option(
        "collector.systemd.enable-start-time-metrics", False, "also export start times of units"
    )


_STATES = ("active", "activating", "deactivating", "inactive", "failed")
_VERSION = re.compile(r"[0-9]{3,}(?:\.[0-9]+)?", re.ASCII)
_MICROSECONDS = 1_000_000
_UNLIMITED = (1 << 64) - 1  # also: not counted
Row = tuple[str, tuple[str, ...], float]
"""A metric's name after node_systemd_, its labels, its value."""


class Unit(NamedTuple):
    """A unit as ListUnits returns it."""

    name: str
    load: str
    active: str
    path: str

    @property
    def kind(self) -> str:
        """The end of the name, such as service."""
        return self.name.rpartition(".")[2]


class Systemd:
    """The `systemd` collector."""

    def __init__(
        self,
        machine: host.Host,
        options: Options,
        *,
        connect: Callable[[Path], AbstractContextManager[SystemBus]] = systembus.connected,
    ) -> None:
        self._root = machine.rootfs
        self._options = options
        self._include = re2.compiled(options.systemd_include, whole=True)
        self._exclude = re2.compiled(options.systemd_exclude, whole=True)
        self._connect = connect

    def collect(self) -> Iterator[Family]:
        """Query systemd now."""
        rows: dict[str, dict[tuple[str, ...], float]] = {}
        with self._connect(self._root) as bus:
            for name, labels, value in self._rows(bus):
                rows.setdefault(name, {})[labels] = value
        for name, samples in rows.items():
            yield METRICS.family(f"node_systemd_{name}", samples.items())

    def _rows(self, bus: SystemBus) -> Iterator[Row]:
        yield from _manager(bus)
        (listed,) = bus.call(_SERVICE, _PATH, _MANAGER, "ListUnits")
        units = [Unit(unit[0], unit[2], unit[3], unit[6]) for unit in listed]
        counts = Counter(unit.active for unit in units)
        for state in dict.fromkeys((*_STATES, *counts)):
            yield "units", (state,), float(counts[state])
        chosen = [unit for unit in units if self._chooses(unit)]
        wanted = [(unit, name) for unit in chosen for name in self._wanted(unit)]
        values = bus.properties(_SERVICE, [_property(unit, name) for unit, name in wanted])
        known = {key: value for key, value in zip(wanted, values, strict=True) if value is not None}
        for unit in chosen:
            kind = str(known.get((unit, "Type"), ""))
            for state in _STATES:
                yield "unit_state", (unit.name, state, kind), float(state == unit.active)
        for (unit, name), value in known.items():
            if name == "Type" or value == _UNLIMITED:
                continue
            metric, scale = _NUMBERS[name]
            if isinstance(value, int | float):
                yield metric, (unit.name,), value / scale
            else:
                guard.skip(f"systemd {name}: {unit.name}: {value!r}", f"node_systemd_{metric}")
        if self._options.systemd_start_times:
            for unit in chosen:
                if unit.active != "active":
                    yield "unit_start_time_seconds", (unit.name,), 0.0

    def _chooses(self, unit: Unit) -> bool:
        return (
            unit.load == "loaded"
            and self._include.fullmatch(unit.name) is not None
            and self._exclude.fullmatch(unit.name) is None
        )

    def _wanted(self, unit: Unit) -> Iterator[str]:
        yield from _OF_KIND.get(unit.kind, ())
        if self._options.systemd_start_times and unit.active == "active":
            yield "ActiveEnterTimestamp"
        if unit.kind == "service":
            yield from ("TasksCurrent", "TasksMax") if self._options.systemd_tasks else ()
            yield from ("NRestarts",) if self._options.systemd_restarts else ()


_OF_KIND = {
    "service": ("Type",),
    "mount": ("Type",),
    "timer": ("LastTriggerUSec",),
    "socket": ("NAccepted", "NConnections", "NRefused"),
}
_NUMBERS = {
    "ActiveEnterTimestamp": ("unit_start_time_seconds", _MICROSECONDS),
    "LastTriggerUSec": ("timer_last_trigger_seconds", _MICROSECONDS),
    "NAccepted": ("socket_accepted_connections_total", 1),
    "NConnections": ("socket_current_connections", 1),
    "NRefused": ("socket_refused_connections_total", 1),
    "NRestarts": ("service_restart_total", 1),
    "TasksCurrent": ("unit_tasks_current", 1),
    "TasksMax": ("unit_tasks_max", 1),
}


def _property(unit: Unit, name: str) -> Property:
    interface = "Unit" if name == "ActiveEnterTimestamp" else unit.kind.capitalize()
    return Property(unit.path, f"{_SERVICE}.{interface}", name)


def _manager(bus: SystemBus) -> Iterator[Row]:
    names = ("Version", "Virtualization", "SystemState")
    wanted = [Property(_PATH, _MANAGER, name) for name in names]
    version, virtualization, state = _texts(bus.properties(_SERVICE, wanted))
    if (match := _VERSION.search(version)) is not None:
        yield "version", (version,), float(match.group())
    yield "virtualization_info", (virtualization or "none",), 1.0
    if state:
        yield "system_running", (), float(state == "running")


def _texts(values: Sequence[Any]) -> list[str]:
    return [value if isinstance(value, str) else "" for value in values]


ENTRY = Entry(
    build=Systemd,
    metrics=METRICS,
    about="units of systemd",
    on=False,
    options=Options,
    needs="extra `systemd`",
)
