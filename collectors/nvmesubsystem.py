"""NVMe subsystems and the paths to them, from <sysfs>/class/nvme-subsystem."""

import re
from collections.abc import Iterator, Mapping

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_CLASS = "<sysfs>/class/nvme-subsystem/*"


def _row(name: str, about: str, file: str, *labels: str) -> Metric:
    source = f"{_CLASS}/{file}"
    return Metric(f"node_nvmesubsystem_{name}", "gauge", about, source, ("subsystem", *labels))


METRICS = Table(
    _row(
        "info",
        "Non-numeric information about an NVMe subsystem.",
        "*",
        *("nqn", "model", "serial", "iopolicy"),
    ),
    _row(
        "namespace_info", "Maps an NVMe namespace block device to its subsystem.", "nvme*n*", "device"
    ),
    _row("paths", "Number of controller paths for an NVMe subsystem.", "nvme*"),
    _row(
        "paths_live",
        "Number of controller paths in live state for an NVMe subsystem.",
        "nvme*/state",
    ),
    _row(
        "path_state",
        "Current NVMe controller path state (1 for the current state, 0 for all others).",
        "nvme*/state",
        *("controller", "transport", "state"),
    ),
)  # fmt: skip
_STATES = ("connecting", "dead", "deleting", "live", "new", "resetting", "unknown")
_INFO = ("subsysnqn", "model", "serial", "iopolicy")
_CONTROLLER = re.compile(r"nvme\d+", re.ASCII)
_NAMESPACE = re.compile(r"nvme\d+n\d+", re.ASCII)


def state_of(text: str | None) -> str:
    """Return a controller's state as in the metrics: `deleting (no IO)` is deleting too."""
    state = (text or "").partition(" ")[0]
    return state if state in _STATES else "unknown"


class NvmeSubsystem:
    """The `nvmesubsystem` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = f"{machine.sysfs}/class/nvme-subsystem"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        rows: dict[str, list[tuple[tuple[str, ...], float]]] = {}
        for subsystem in sysfs.listing(self._directory):
            path = f"{self._directory}/{subsystem}"
            for name, labels, value in _subsystem(path, sysfs.listing_optional(path)):
                rows.setdefault(name, []).append(((subsystem, *labels), value))
        for name, samples in rows.items():
            yield METRICS.family(f"node_nvmesubsystem_{name}", samples)


def _subsystem(
    path: str, entries: Mapping[str, int]
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    yield "info", tuple(sysfs.attribute(f"{path}/{file}") or "" for file in _INFO), 1.0
    live = total = 0
    for entry in entries:
        if _NAMESPACE.fullmatch(entry):
            yield "namespace_info", (entry,), 1.0
        elif _CONTROLLER.fullmatch(entry):
            current = state_of(sysfs.attribute(f"{path}/{entry}/state"))
            transport = sysfs.attribute(f"{path}/{entry}/transport") or ""
            total += 1
            live += current == "live"
            for state in _STATES:
                yield "path_state", (entry, transport, state), float(state == current)
    yield "paths", (), float(total)
    yield "paths_live", (), float(live)


ENTRY = Entry(
    build=lambda host, _: NvmeSubsystem(host),
    metrics=METRICS,
    about="NVMe subsystems and their paths",
    on=False,
)
