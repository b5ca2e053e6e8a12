"""Temperatures of thermal zones and states of cooling devices, from <sysfs>/class/thermal."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_ZONE, _DEVICE = "<sysfs>/class/thermal/thermal_zone*", "<sysfs>/class/thermal/cooling_device*"
METRICS = Table(
    Metric(
        "node_thermal_zone_temp",
        "gauge",
        "Zone temperature in Celsius",
        f"{_ZONE}/temp",
        ("zone", "type"),
    ),
    Metric(
        "node_cooling_device_cur_state",
        "gauge",
        "Current throttle state of the cooling device",
        f"{_DEVICE}/cur_state",
        ("name", "type"),
    ),
    Metric(
        "node_cooling_device_max_state",
        "gauge",
        "Maximum throttle state of the cooling device",
        f"{_DEVICE}/max_state",
        ("name", "type"),
    ),
)

_MILLIDEGREES = 1000
_ABSOLUTE_ZERO = -273_150
"""Millidegrees; the kernel has -274,000 (THERMAL_TEMP_INVALID) for a zone without a value."""
Row = tuple[Sequence[str], float]


class Member(NamedTuple):
    """A zone or device: its directory and constant labels."""

    path: str
    labels: tuple[str, str]


def members(directory: str, names: Sequence[str], prefix: str) -> list[Member]:
    """Return the zones or devices, without those that have no type."""
    return [
        Member(f"{directory}/{name}", (name.removeprefix(prefix), kind))
        for name in names
        if name.startswith(prefix) and (kind := sysfs.attribute(f"{directory}/{name}/type"))
    ]


class ThermalZone:
    """The `thermal_zone` collector."""

    def __init__(self, machine: host.Host) -> None:
        directory = f"{machine.sysfs}/class/thermal"
        self._members = sysfs.Derived(
            lambda listings: (
                members(directory, list(listings[0]), "thermal_zone"),
                members(directory, list(listings[0]), "cooling_device"),
            ),
            directory,
        )

    def collect(self) -> Iterator[Family]:
        """Read the states. Zones that are disabled or suspended return an error and have no sample."""
        zones, devices = self._members.get()
        temperatures = [
            (labels, value / _MILLIDEGREES)
            for labels, value in _read(zones, "temp")
            if value >= _ABSOLUTE_ZERO
        ]
        for name, rows in (
            ("node_thermal_zone_temp", temperatures),
            ("node_cooling_device_cur_state", _read(devices, "cur_state")),
            ("node_cooling_device_max_state", _read(devices, "max_state")),
        ):
            if rows:
                yield METRICS.family(name, rows)


def _read(these: list[Member], attribute: str) -> list[Row]:
    return [
        (labels, float(value))
        for path, labels in these
        if (value := sysfs.number(f"{path}/{attribute}")) is not None
    ]


ENTRY = Entry(
    build=lambda host, _: ThermalZone(host),
    metrics=METRICS,
    about="thermal zones and cooling devices",
)
