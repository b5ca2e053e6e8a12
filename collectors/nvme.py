"""NVMe controllers and their namespaces, from <sysfs>/class/nvme."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_DEVICE = "<sysfs>/class/nvme/<device>"
_NAMESPACE = f"{_DEVICE}/<namespace>"
_OF_NAMESPACE = ("device", "nsid")


def _size(name: str, about: str, file: str) -> Metric:
    return Metric(
        f"node_nvme_namespace_{name}_bytes", "gauge", about, f"{_NAMESPACE}/{file}", _OF_NAMESPACE,
        "bytes",
    )  # fmt: skip


METRICS = Table(
    Metric(
        "node_nvme_info",
        "gauge",
        "Non-numeric data from /sys/class/nvme/<device>, value is always 1.",
        f"{_DEVICE}/*",
        ("device", "firmware_revision", "model", "serial", "state", "cntlid"),
    ),
    Metric(
        "node_nvme_namespace_info",
        "gauge",
        "Information about NVMe namespaces. Value is always 1",
        f"{_NAMESPACE}/ana_state",
        (*_OF_NAMESPACE, "ana_state"),
    ),
    _size(
        "capacity",
        "Capacity of the NVMe namespace in bytes. Computed as namespace_size * namespace_logical_block_size",
        "size",
    ),
    _size(
        "size",
        "Size of the NVMe namespace in bytes. Available in /sys/class/nvme/<device>/<namespace>/size",
        "size",
    ),
    _size(
        "used",
        "Used space of the NVMe namespace in bytes. Available in /sys/class/nvme/<device>/<namespace>/nuse",
        "nuse",
    ),
    _size(
        "logical_block_size",
        "Logical block size of the NVMe namespace in bytes. Usually 4Kb. "
        "Available in /sys/class/nvme/<device>/<namespace>/queue/logical_block_size",
        "queue/logical_block_size",
    ),
)

_SECTOR = 512  # the unit of a block device's `size`, independent of its block size
_NSID = re.compile(r"nvme\d+n(\d+)", re.ASCII)
Row = tuple[Sequence[str], float]


class Controller(NamedTuple):
    """A device with its constants; firmware and state can change."""

    name: str
    path: str
    model: str
    serial: str
    number: str


def controllers(directory: str, names: Sequence[str]) -> list[Controller]:
    """Return the controllers of a listing."""
    return [
        Controller(name, path, *(_text(f"{path}/{file}") for file in ("model", "serial", "cntlid")))
        for name, path in ((name, f"{directory}/{name}") for name in names)
    ]


class Nvme:
    """The `nvme` collector."""

    def __init__(self, machine: host.Host) -> None:
        directory = f"{machine.sysfs}/class/nvme"
        self._controllers = sysfs.Derived(
            lambda listings: controllers(directory, list(listings[0])), directory
        )

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        rows: dict[str, list[Row]] = {}
        for controller in self._controllers.get():
            name, path, model, serial, number = controller
            firmware, state = _text(f"{path}/firmware_rev"), _text(f"{path}/state")
            labels = (name, firmware, model, serial, state, number)
            rows.setdefault("node_nvme_info", []).append((labels, 1.0))
            for entry in sysfs.listing_optional(path):
                if (match := _NSID.fullmatch(entry)) is not None:
                    for metric, row in namespace(name, match.group(1), f"{path}/{entry}"):
                        rows.setdefault(f"node_nvme_namespace_{metric}", []).append(row)
        for metric, samples in rows.items():
            yield METRICS.family(metric, samples)


def namespace(device: str, nsid: str, path: str) -> Iterator[tuple[str, Row]]:
    """Yield a namespace's samples; kernels before 6.8 do not report usage."""
    yield "info", ((device, nsid, _text(f"{path}/ana_state") or "unknown"), 1.0)
    size, block, used = (
        sysfs.number(f"{path}/{file}") for file in ("size", "queue/logical_block_size", "nuse")
    )
    # node_exporter multiplies sectors by the block size, which makes a drive with 4 KiB blocks eight times too large.
    sizes = {
        "capacity_bytes": None if size is None else size * _SECTOR,
        "size_bytes": None if size is None else size * _SECTOR,
        "used_bytes": None if used is None or block is None else used * block,
        "logical_block_size_bytes": block,
    }
    for metric, value in sizes.items():
        if value is not None:
            yield metric, ((device, nsid), float(value))


def _text(path: str) -> str:
    return sysfs.attribute(path) or ""


ENTRY = Entry(
    build=lambda host, _: Nvme(host), metrics=METRICS, about="NVMe controllers and namespaces"
)
