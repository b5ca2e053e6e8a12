"""Network devices: state, addresses, speed, MTU and carrier changes, from <sysfs>/class/net.

A sysfs shows the devices of the network namespace in which it was mounted: with the node's mounted, a pod sees the node's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table, shown
from collectors.interface.sample import Family, MetricType
from collectors.shared import attributes, sysfs
from collectors.shared.attributes import parse_number
from collectors.shared.formats.patterns import regexp
from plimsoll import re2
from plimsoll.flags import option

_CLASS = "<sysfs>/class/net"
# Metric without node_network_, type, file with the value.
_PROPERTIES: tuple[tuple[str, MetricType, str], ...] = (
    ("address_assign_type", "gauge", "addr_assign_type"),
    ("carrier", "gauge", "carrier"),
    ("carrier_changes_total", "counter", "carrier_changes"),
    ("carrier_down_changes_total", "counter", "carrier_down_count"),
    ("carrier_up_changes_total", "counter", "carrier_up_count"),
    ("device_id", "gauge", "dev_id"),
    ("dormant", "gauge", "dormant"),
    ("flags", "gauge", "flags"),
    ("iface_id", "gauge", "ifindex"),
    ("iface_link", "gauge", "iflink"),
    ("iface_link_mode", "gauge", "link_mode"),
    ("mtu_bytes", "gauge", "mtu"),
    ("name_assign_type", "gauge", "name_assign_type"),
    ("net_dev_group", "gauge", "netdev_group"),
    ("protocol_type", "gauge", "type"),
    ("speed_bytes", "gauge", "speed"),
    ("transmit_queue_length", "gauge", "tx_queue_len"),
)
METRICS = Table(
    Metric(
        "node_network_up",
        "gauge",
        "Value is 1 if operstate is 'up', 0 otherwise.",
        f"{_CLASS}/*/operstate",
        ("device",),
    ),
    Metric(
        "node_network_info",
        "gauge",
        "Non-numeric data from /sys/class/net/<iface>, value is always 1.",
        f"{_CLASS}/*",
        ("address", "adminstate", "broadcast", "device", "duplex", "ifalias", "operstate"),
    ),
    *(
        Metric(
            f"node_network_{name}",
            kind,
            f"Network device property: {name}",
            f"{_CLASS}/*/{file}",
            ("device",),
            "bytes" if name.endswith("_bytes") else "",
        )
        for name, kind, file in _PROPERTIES
    ),
)

# Constant for the life of a device; a replaced or renamed one is a new entry in sysfs.
_LASTING = ("dev_id", "ifindex", "name_assign_type")
_CHANGING = (
    *(file for _, _, file in _PROPERTIES if file not in _LASTING),
    *("address", "broadcast", "duplex", "ifalias", "operstate"),
)
_MEGABIT = 125_000  # in bytes
_UP = 1  # IFF_UP in a device's flags

Texts = Mapping[str, str]
"""Readable files of a device."""


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    netclass_ignored_devices: str = option(
        "collector.netclass.ignored-devices",
        "^$",
        "leave out devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    netclass_ignore_invalid_speed: bool = option(
        "collector.netclass.ignore-invalid-speed",
        False,
        "export no speed for devices that report -1 (unknown)",
    )


def families(devices: Mapping[str, Texts], *, ignore_invalid_speed: bool = False) -> list[Family]:
    """Yield all families from every device's files."""
    values = {
        device: dict(_values(texts, ignore_invalid_speed)) for device, texts in devices.items()
    }
    made = [
        METRICS.family("node_network_up", _up(devices)),
        METRICS.family("node_network_info", ((_info(d, t), 1.0) for d, t in devices.items())),
    ]
    for name, _, file in _PROPERTIES:
        rows = [((device,), known[file]) for device, known in values.items() if file in known]
        made.append(METRICS.family(f"node_network_{name}", rows))
    return made


def _values(texts: Texts, ignore_invalid_speed: bool) -> Iterator[tuple[str, float]]:
    for _, _, file in _PROPERTIES:
        if (number := parse_number(texts.get(file, ""))) is None:
            continue
        if file == "speed":
            if number < 0 and ignore_invalid_speed:
                continue
            number *= _MEGABIT
        yield file, float(number)


def _up(devices: Mapping[str, Texts]) -> Iterator[tuple[tuple[str], float]]:
    for device, texts in devices.items():
        if "operstate" in texts:
            yield (device,), float(texts["operstate"] == "up")


def _info(device: str, texts: Texts) -> tuple[str, ...]:
    flags = parse_number(texts.get("flags", ""))
    administrative = "unknown" if flags is None else "up" if flags & _UP else "down"
    address, broadcast, duplex, ifalias, operstate = (
        texts.get(name, "") for name in ("address", "broadcast", "duplex", "ifalias", "operstate")
    )
    return address, administrative, broadcast, device, duplex, ifalias, operstate


class NetClass:
    """The `netclass` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = machine.sysfs / "class/net"
        self._devices = sysfs.Derived(self._find, self._directory, raw=True)
        self._ignored = re2.compiled(options.netclass_ignored_devices)
        self._ignore_invalid_speed = options.netclass_ignore_invalid_speed
        self._texts: Mapping[str, Texts] = {}
        self._families: list[Family] = []

    def collect(self) -> list[Family]:
        """Read the source now. Files rarely change, and equal ones yield equal families."""
        texts = dict(self._read())
        if texts != self._texts or not self._families:
            ignoring = self._ignore_invalid_speed
            self._families = families(texts, ignore_invalid_speed=ignoring)
            self._texts = texts
        return self._families

    def _read(self) -> Iterator[tuple[str, Texts]]:
        for device, (directory, lasting) in self._devices.get().items():
            if (changing := attributes.read_optional(directory, _CHANGING)) is not None:
                yield device, {**lasting, **changing}

    def _find(self, listings: Sequence[sysfs.Listing]) -> dict[str, tuple[str, Texts]]:
        """Return each device's directory and constants."""
        by_device: dict[str, tuple[str, Texts]] = {}
        for device in listings[0]:
            directory = f"{self._directory}/{device}"
            if self._ignored.search(device) is not None:
                continue
            # bonding_masters is a file.
            if (lasting := attributes.read_optional(directory, _LASTING)) is not None:
                by_device.setdefault(shown(device), (directory, lasting))
        return by_device


ENTRY = Entry(
    build=NetClass,
    metrics=METRICS,
    about="state, speed and properties of network devices",
    options=Options,
    slow=True,
)
