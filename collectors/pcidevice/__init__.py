"""PCI devices: ids, location, link width and speed, from <sysfs>/bus/pci/devices."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.pcidevice import formats
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_float, parse_hex
from plimsoll.flags import option

_DEVICE = "<sysfs>/bus/pci/devices/<location>"
_PLACE = ("segment", "bus", "device", "function")
_NAMES = (
    *("vendor_name", "device_name", "subsystem_vendor_name", "subsystem_device_name"),
    "class_name",
)


def _gauge(name: str, about: str, file: str, *labels: str) -> Metric:
    return Metric(f"node_pcidevice_{name}", "gauge", about, f"{_DEVICE}/{file}", (*_PLACE, *labels))


METRICS = Table(
    _gauge(
        "info",
        "Non-numeric data from /sys/bus/pci/devices/<location>, value is always 1.",
        "*",
        *(f"parent_{part}" for part in _PLACE),
        *("class_id", "vendor_id", "device_id", "subsystem_vendor_id", "subsystem_device_id"),
        "revision",
        *_NAMES,
    ),
    _gauge(
        "max_link_transfers_per_second",
        "Value of maximum link's transfers per second (T/s)",
        "max_link_speed",
    ),
    _gauge(
        "max_link_width",
        "Value of maximum link's width (number of lanes)",
        "max_link_width",
    ),
    _gauge(
        "current_link_transfers_per_second",
        "Value of current link's transfers per second (T/s)",
        "current_link_speed",
    ),
    _gauge(
        "current_link_width",
        "Value of current link's width (number of lanes)",
        "current_link_width",
    ),
    _gauge(
        "power_state",
        "PCIe device power state, one of: D0, D1, D2, D3hot, D3cold, unknown or error.",
        "power_state",
        "state",
    ),
    _gauge(
        "d3cold_allowed",
        "Whether the PCIe device supports D3cold power state (0/1).",
        "d3cold_allowed",
    ),
    _gauge(
        "sriov_drivers_autoprobe",
        "Whether SR-IOV drivers autoprobe is enabled for the device (0/1).",
        "sriov_drivers_autoprobe",
    ),
    _gauge(
        "sriov_numvfs",
        "Number of Virtual Functions (VFs) currently enabled for SR-IOV.",
        "sriov_numvfs",
    ),
    _gauge(
        "sriov_totalvfs",
        "Total number of Virtual Functions (VFs) supported by the device.",
        "sriov_totalvfs",
    ),
    _gauge(
        "sriov_vf_total_msix",
        "Total number of MSI-X vectors for Virtual Functions.",
        "sriov_vf_total_msix",
    ),
    _gauge(
        "numa_node",
        "NUMA node number for the PCI device. -1 indicates unknown or not available.",
        "numa_node",
    ),
)

_IDS = {
    "class": 6,
    "vendor": 4,
    "device": 4,
    "subsystem_vendor": 4,
    "subsystem_device": 4,
    "revision": 2,
}
"""Files with a device's ids, and their number of digits."""
_SPEEDS = {
    "max_link_speed": "max_link_transfers_per_second",
    "current_link_speed": "current_link_transfers_per_second",
}
_COUNTS = (
    *("max_link_width", "current_link_width", "d3cold_allowed", "sriov_drivers_autoprobe"),
    *("sriov_numvfs", "sriov_totalvfs", "sriov_vf_total_msix", "numa_node"),
)
_STATES = ("D0", "D1", "D2", "D3hot", "D3cold", "unknown", "error")
_IDS_FILES = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")

Place = tuple[str, ...]
Row = tuple[Sequence[str], float]


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    pcidevice_names: bool = option(
        "collector.pcidevice.names",
        False,
        "add the names of vendor, device, subsystem and class, as pci.ids has them",
    )
    pcidevice_ids_file: str = option(
        "collector.pcidevice.idsfile",
        "",
        "the pci.ids to take names from; without it, those of Debian's and Fedora's packages are tried",
        metavar="FILE",
    )


class Device(NamedTuple):
    """Constants of a device."""

    path: str
    place: Place
    facts: Mapping[str, str]
    """Labels of node_pcidevice_info."""
    files: frozenset[str]


def parse_place(location: str) -> Place | None:
    """Return segment, bus, device and function of `0000:3b:00.1`; None for other names, such as the bus `pci0000:3a`."""
    segment, _, rest = location.partition(":")
    bus, _, rest = rest.partition(":")
    device, _, function = rest.partition(".")
    try:
        numbers = [parse_hex(part) for part in (segment, bus, device, function)]
    except ValueError:
        return None
    return tuple(f"{n:0{width}x}" for n, width in zip(numbers, (4, 2, 2, 1), strict=True))


def parse_speed(text: str) -> float | None:
    """Return transfers per second in `16.0 GT/s PCIe`; None for a link that is down, which is `Unknown`."""
    number, _, unit = text.partition(" ")
    try:
        return parse_float(number) * 1e9 if unit.startswith("GT/s") else None
    except ValueError:
        return None


class PciDevice:
    """The `pcidevice` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = f"{machine.sysfs}/bus/pci/devices"
        self._rootfs = machine.rootfs
        self._options = options
        self._devices = sysfs.Derived(self._find, self._directory)

    def collect(self) -> Iterator[Family]:
        """Read the source. Missing features, such as a link or virtual functions, have no sample."""
        devices = self._devices.get()
        rows: dict[str, list[Row]] = {}
        for device in devices:
            for name, row in _readings(device):
                rows.setdefault(f"node_pcidevice_{name}", []).append(row)
        if devices:
            yield METRICS.facts("node_pcidevice_info", (device.facts for device in devices))
        for name, samples in rows.items():
            yield METRICS.family(name, samples)

    def _find(self, listings: Sequence[sysfs.Listing]) -> list[Device]:
        devices = [
            Device(path, place, _facts(path, place), frozenset(sysfs.listing_optional(path)))
            for location in listings[0]
            if (place := parse_place(location)) is not None
            for path in (f"{self._directory}/{location}",)
        ]
        return self._with_names(devices) if self._options.pcidevice_names else devices

    def _with_names(self, devices: list[Device]) -> list[Device]:
        vendors = {device.facts.get("vendor_id", "")[2:] for device in devices}
        names = formats.parse(self._ids().splitlines(), vendors)
        return [d._replace(facts={**d.facts, **named(d.facts, names)}) for d in devices]

    def _ids(self) -> str:
        """Return the text of pci.ids: the configured file, else the host's, else the container's."""
        if given := self._options.pcidevice_ids_file:
            try:
                return host.read(Path(given))
            except SourceAbsentError as error:
                raise CollectorError(f"--collector.pcidevice.idsfile: {error}") from error
        for path in (root / file for root in (self._rootfs, Path("/")) for file in _IDS_FILES):
            if (text := host.read_guarded(path)) is not None:
                return text
        raise CollectorError(
            "no pci.ids found: give --collector.pcidevice.idsfile, or do without names"
        )


def _facts(path: str, place: Place) -> dict[str, str]:
    """Return the labels from a device's own files."""
    parent = parse_place(Path(path).resolve().parent.name) or ("*",) * len(_PLACE)
    facts = dict(zip(_PLACE, place, strict=True))
    facts |= {f"parent_{label}": part for label, part in zip(_PLACE, parent, strict=True)}
    for file, digits in _IDS.items():
        text = sysfs.attribute(f"{path}/{file}") or ""
        try:
            value = f"0x{parse_hex(text.removeprefix('0x')):0{digits}x}"
        except ValueError:
            continue
        facts[file if file == "revision" else f"{file}_id"] = value
    return facts


def named(facts: Mapping[str, str], names: formats.PciNames) -> dict[str, str]:
    """Return the names of a device's ids."""
    vendor, device, subsystem_vendor, subsystem_device, code = (
        facts.get(f"{file}_id", "")[2:]
        for file in ("vendor", "device", "subsystem_vendor", "subsystem_device", "class")
    )
    return {
        "vendor_name": names.vendor(vendor),
        "device_name": names.device(vendor, device),
        "subsystem_vendor_name": names.vendor(subsystem_vendor),
        "subsystem_device_name": names.subsystem(
            (vendor, device, subsystem_vendor, subsystem_device)
        ),
        "class_name": names.pci_class(code),
    }


def _readings(device: Device) -> Iterator[tuple[str, Row]]:
    for file in _SPEEDS.keys() & device.files:
        speed = parse_speed(sysfs.attribute(f"{device.path}/{file}") or "")
        if speed is not None:
            yield _SPEEDS[file], (device.place, speed)
    for file in device.files.intersection(_COUNTS):
        count = sysfs.number(f"{device.path}/{file}")
        if count is not None and count >= 0:  # a NUMA node of -1 means none
            yield file, (device.place, float(count))
    state = sysfs.attribute(f"{device.path}/power_state")
    for known in _STATES if state else ():
        yield "power_state", ((*device.place, known), float(known == state))


ENTRY = Entry(
    build=PciDevice, metrics=METRICS, about="PCI devices and their links", on=False, options=Options
)
