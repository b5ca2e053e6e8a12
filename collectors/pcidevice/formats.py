"""Names of PCI vendors, devices and classes from the file pci.ids of distributions."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

Subsystem = tuple[str, str, str, str]
"""Vendor, device, the subsystem's vendor, the subsystem's device."""


@dataclass(frozen=True, slots=True)
class PciNames:
    """Names by id (hexadecimal without `0x`). An id without a name is its own name."""

    vendors: dict[str, str] = field(default_factory=dict)
    devices: dict[tuple[str, str], str] = field(default_factory=dict)
    subsystems: dict[Subsystem, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    """By two, four or six digits: class, subclass, programming interface."""

    def vendor(self, vendor: str) -> str:
        """Return the name of a vendor."""
        return self.vendors.get(vendor, vendor)

    def device(self, vendor: str, device: str) -> str:
        """Return the name of a device."""
        return self.devices.get((vendor, device), device)

    def subsystem(self, ids: Subsystem) -> str:
        """Return the name of a subsystem: a card, or a device as integrated by its vendor."""
        return self.subsystems.get(ids, ids[-1])

    def pci_class(self, code: str) -> str:
        """Return the most specific name of a class."""
        for digits in (6, 4, 2):
            if (name := self.classes.get(code[:digits])) is not None:
                return name
        return f"Unknown class ({code})"


def parse(lines: Iterable[str], vendors: Set[str]) -> PciNames:
    """Parse all classes and vendors, and the devices of these vendors only: all of them would take megabytes."""
    names = PciNames()
    for path, name in _entries(lines):
        match path:
            case ["C", *codes]:
                names.classes["".join(codes)] = name
            case [vendor]:
                names.vendors[vendor] = name
            case [vendor, device] if vendor in vendors:
                names.devices[vendor, device] = name
            case [vendor, device, subsystem] if vendor in vendors:
                if len(ids := subsystem.split()) == 2:
                    names.subsystems[vendor, device, ids[0], ids[1]] = name
    return names


def _entries(lines: Iterable[str]) -> Iterator[tuple[list[str], str]]:
    """Yield the ids of each entry, outermost first, and its name. An entry's depth is its number of leading tabs."""
    path: list[str] = []
    for line in lines:
        entry = line.lstrip("\t")
        depth = len(line) - len(entry)
        number, gap, name = entry.partition("  ")
        if not gap or entry.startswith("#"):
            continue
        ids = ["C", number[2:]] if depth == 0 and number.startswith("C ") else [number]
        if depth and path[:1] == ["C"]:
            depth += 1  # a class takes two elements of the path
        if len(path) >= depth:
            path[depth:] = ids
            yield path, name.strip()
