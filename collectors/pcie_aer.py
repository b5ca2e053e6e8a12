"""PCI Express errors reported by devices and root ports (AER), from <sysfs>/bus/pci/devices."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from collectors.interface import guard
from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint
from collectors.shared.sysfs import Derived, Listing

_DEVICES = "<sysfs>/bus/pci/devices/*"
METRICS = Table(
    Metric(
        "node_pcie_aer_errors_total",
        "counter",
        "PCI Express errors this device has seen, by severity and type; types that never occurred are left out. "
        "The type `total` counts messages, each of which may report several errors.",
        f"{_DEVICES}/aer_dev_*",
        ("device", "severity", "type"),
        node_exporter=False,
    ),
    Metric(
        "node_pcie_aer_rootport_errors_total",
        "counter",
        "PCI Express error messages that reached this root port, its own included.",
        f"{_DEVICES}/aer_rootport_total_err_*",
        ("device", "severity"),
        node_exporter=False,
    ),
)
_OF_DEVICES = {
    "correctable": "aer_dev_correctable",
    "nonfatal": "aer_dev_nonfatal",
    "fatal": "aer_dev_fatal",
}
_OF_ROOT_PORTS = {
    "correctable": "aer_rootport_total_err_cor",
    "nonfatal": "aer_rootport_total_err_nonfatal",
    "fatal": "aer_rootport_total_err_fatal",
}
_TOTAL = "total"


class _File(NamedTuple):
    device: str
    severity: str
    path: str


class _Files(NamedTuple):
    of_devices: list[_File]
    of_root_ports: list[_File]


_METRIC = "node_pcie_aer_errors_total"
Row = tuple[Sequence[str], float]


def parse(text: str) -> dict[str, int]:
    """Yield the total and each type that has occurred: `RxErr 2`, in old kernels `Receiver Error 2`."""
    counts: dict[str, int] = {}
    for name, number in guard.readable(text.splitlines(), _count, _METRIC):
        if name.startswith("TOTAL_ERR_"):
            counts[_TOTAL] = number
        elif number:
            counts[name.strip()] = number
    return counts


def _count(line: str) -> tuple[str, int]:
    name, _, count = line.strip().rpartition(" ")
    try:
        number = parse_uint(count)
    except ValueError as error:
        raise CollectorError(f"AER: {name[:40]}: {error}") from error
    if not name.isascii() or not name.isprintable() or not name.strip():
        raise CollectorError(f"AER: no type in {line[:80]!r}")
    return name, number


class PcieAer:
    """The `pcie_aer` collector."""

    def __init__(self, machine: Host) -> None:
        self._base = f"{machine.sysfs}/bus/pci/devices"
        self._files = Derived(self._find, self._base)
        self._parsed: dict[str, tuple[str, list[Row]]] = {}

    def collect(self) -> Iterator[Family]:
        """Read the source. The files are missing before Linux 4.19, and if firmware handles AER itself."""
        files = self._files.get()
        of_devices = [row for file in files.of_devices for row in self._rows(file)]
        of_ports = [
            ((file.device, file.severity), count)
            for file in files.of_root_ports
            if (count := sysfs.number(file.path)) is not None
        ]
        if not of_devices and not of_ports:
            raise SourceAbsentError(f"{self._base}: no device reports PCI Express errors")
        if of_devices:
            yield METRICS.family("node_pcie_aer_errors_total", of_devices)
        if of_ports:
            yield METRICS.family("node_pcie_aer_rootport_errors_total", of_ports)

    def _find(self, listings: Sequence[Listing]) -> _Files:
        self._parsed.clear()
        present = [
            (device, sysfs.listing_optional(f"{self._base}/{device}")) for device in listings[0]
        ]

        def of(names: Mapping[str, str]) -> list[_File]:
            return [
                _File(device, severity, f"{self._base}/{device}/{name}")
                for device, entries in present
                for severity, name in names.items()
                if name in entries
            ]

        return _Files(of(_OF_DEVICES), of(_OF_ROOT_PORTS))

    def _rows(self, file: _File) -> list[Row]:
        """Return the rows of a file, cached by content, since most never change."""
        text = sysfs.content(file.path)
        if text is None:
            return []
        before = self._parsed.get(file.path)
        if before is not None and before[0] == text:
            return before[1]
        skipped = guard.skipped()
        try:
            counts = parse(text)
        except CollectorError as error:
            guard.skip(error, _METRIC)
            return []
        rows: list[Row] = [
            ((file.device, file.severity, kind), count) for kind, count in counts.items()
        ]
        if guard.skipped() == skipped:
            self._parsed[file.path] = text, rows
        return rows


ENTRY = Entry(
    optional=True,
    build=lambda host, _: PcieAer(host),
    metrics=METRICS,
    about="PCI Express errors of devices and root ports",
)
