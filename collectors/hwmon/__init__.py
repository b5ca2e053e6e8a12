"""Temperatures, fans, voltages and other sensors from <sysfs>/class/hwmon, which lm-sensors shows as well."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collectors.hwmon.sensors import METRICS, Scale, clean, meaning, split
from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.sample import Family, SourceAbsentError
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_float
from collectors.shared.formats.patterns import DeviceFilter, regexp
from plimsoll.flags import option


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    hwmon_chip_include: str = option(
        "collector.hwmon.chip-include",
        "",
        "regular expression of the chips to export",
        metavar="REGEXP",
        parse=regexp,
    )
    hwmon_chip_exclude: str = option(
        "collector.hwmon.chip-exclude",
        "",
        "regular expression of the chips to leave out",
        metavar="REGEXP",
        parse=regexp,
    )
    hwmon_sensor_include: str = option(
        "collector.hwmon.sensor-include",
        "",
        "regular expression of the sensors to export, each written as <chip>;<sensor>",
        metavar="REGEXP",
        parse=regexp,
    )
    hwmon_sensor_exclude: str = option(
        "collector.hwmon.sensor-exclude",
        "",
        "regular expression of the sensors to leave out, each written as <chip>;<sensor>",
        metavar="REGEXP",
        parse=regexp,
    )


class SensorReading(NamedTuple):
    """A file to read each time, and the metric of its number."""

    path: str
    name: str
    labels: tuple[str, str]
    scale: Scale


class Sensors(NamedTuple):
    """The constant part of a chip, which changes only when files are added or removed."""

    labels: tuple[tuple[str, str, str], ...]
    readings: tuple[SensorReading, ...]


class Chip:
    """A directory of <sysfs>/class/hwmon. Old drivers put their files into its `device` directory."""

    def __init__(self, directory: Path, label: str, sensor_filter: DeviceFilter) -> None:
        self.label = label
        self.name = clean(sysfs.content(f"{directory}/name") or "")
        self._filter = sensor_filter
        self._directories = (str(directory), f"{directory}/device")
        self._sensors = sysfs.Derived(self._look, *self._directories)

    def sensors(self) -> Sensors:
        """Return the chip's current sensors."""
        try:
            return self._sensors.get()
        except SourceAbsentError:
            return Sensors((), ())  # removed a moment ago

    def _look(self, listings: Sequence[sysfs.Listing]) -> Sensors:
        files: dict[tuple[str, str], dict[str, str]] = {}
        for directory, listing in zip(self._directories, listings, strict=True):
            for filename in listing:
                if (parts := split(filename)) is not None:
                    sensor, kind, element = parts
                    files.setdefault((sensor, kind), {})[element] = f"{directory}/{filename}"
        labels: list[tuple[str, str, str]] = []
        readings: list[SensorReading] = []
        for (sensor, kind), paths in files.items():
            if self._filter.ignores(f"{self.label};{sensor}"):
                continue
            label = sysfs.content(paths.pop("label")) if "label" in paths else None
            if label is not None:
                labels.append((self.label, sensor, label.strip("\n")))
            readings.extend(self._readings(sensor, kind, paths, label))
        return Sensors(tuple(labels), tuple(readings))

    def _readings(
        self, sensor: str, kind: str, paths: dict[str, str], label: str | None
    ) -> Iterator[SensorReading]:
        for element, path in paths.items():
            name, scale = meaning(kind, element, paths)
            key = sensor
            if (kind, element) == ("freq", "input"):
                key = clean(label or "")  # a GPU's clocks are named by label: sclk, mclk
            if key and METRICS.find(name) is not None and not Path(path).is_dir():
                yield SensorReading(path, name, (self.label, key), scale)


def label_chips(directories: Iterable[Path]) -> dict[str, Path]:
    """Return a label per chip that is stable over reboots, unlike hwmon's numbers."""
    chips = [
        (path, base, clean(sysfs.attribute(f"{path}/name") or ""))
        for path in directories
        if path.is_dir() and (base := base_label(path))
    ]
    bases = Counter(base for _, base, _ in chips)
    named = Counter((base, name) for _, base, name in chips)
    labels = {}
    for path, base, name in chips:
        label = base
        if bases[base] > 1:  # several chips of one device, such as the radios of a Wi-Fi card
            own = name if named[base, name] == 1 else ""
            label = f"{base}_{own or clean(path.name)}"
        labels[label] = path
    return labels


def base_label(chip: Path) -> str:
    """Return bus and name of a chip's device, as `platform_coretemp_0`; without a device the chip's name or number."""
    try:
        device = (chip / "device").resolve(strict=True)
    except OSError:
        device = None
    if device is not None and (name := clean(device.name)):
        return "_".join(filter(None, (clean(device.parent.name), name)))
    return clean(sysfs.content(f"{chip}/name") or "") or clean(chip.resolve().name)


class HwMon:
    """The `hwmon` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = machine.sysfs / "class/hwmon"
        self._chip_filter = DeviceFilter(options.hwmon_chip_include, options.hwmon_chip_exclude)
        self._sensor_filter = DeviceFilter(
            options.hwmon_sensor_include, options.hwmon_sensor_exclude
        )
        self._chips = sysfs.Derived(self._find, self._directory)

    def collect(self) -> Iterator[Family]:
        """Read the sensors. Those that cannot be read, as of a sleeping device, have no sample."""
        present = self._chips.get()
        names = [((chip.label, chip.name), 1.0) for chip in present if chip.name]
        if names:
            yield METRICS.family("node_hwmon_chip_names", names)
        labels: list[tuple[Sequence[str], float]] = []
        values: dict[str, dict[tuple[str, str], float]] = {}
        for chip in present:
            sensors = chip.sensors()
            labels.extend((row, 1.0) for row in sensors.labels)
            for path, name, key, scale in sensors.readings:
                if (value := _value(path)) is not None:
                    values.setdefault(name, {}).setdefault(key, scale(value))
        if labels:
            yield METRICS.family("node_hwmon_sensor_label", labels)
        for name, rows in values.items():
            yield METRICS.family(name, rows.items())

    def _find(self, listings: Sequence[sysfs.Listing]) -> list[Chip]:
        labels = label_chips(self._directory / name for name in listings[0])
        return [
            Chip(path, label, self._sensor_filter)
            for label, path in labels.items()
            if not self._chip_filter.ignores(label)
        ]


def _value(path: str) -> float | None:
    text = sysfs.attribute(path)
    try:
        return None if text is None else parse_float(text)
    except ValueError:
        return None


ENTRY = Entry(
    build=HwMon,
    metrics=METRICS,
    about="temperatures, fans, voltages and other sensors",
    options=Options,
)
