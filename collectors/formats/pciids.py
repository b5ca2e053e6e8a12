"""Names of PCI vendors, devices and classes, from the file pci.ids that distributions ship."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

Subsystem = tuple[str, str, str, str]
"""Vendor, device, the subsystem's vendor, the subsystem's device."""


@dataclass(frozen=True, slots=True)
class PciNames:
    """Ids, hexadecimal without `0x`, to names. What has no name goes by its id."""

    vendors: dict[str, str] = field(default_factory=dict)
    devices: dict[tuple[str, str], str] = field(default_factory=dict)
    subsystems: dict[Subsystem, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    """By two, four or six digits: class, subclass, programming interface."""

    def vendor(self, vendor: str) -> str:
        """The name of a vendor."""
        return self.vendors.get(vendor, vendor)

    def device(self, vendor: str, device: str) -> str:
        """The name of a device."""
        return self.devices.get((vendor, device), device)

    def subsystem(self, ids: Subsystem) -> str:
        """The name of a card, or of a device as its maker built it in."""
        return self.subsystems.get(ids, ids[-1])

    def pci_class(self, code: str) -> str:
        """The name of a class, as exact as there is one."""
        for digits in (6, 4, 2):
            if (name := self.classes.get(code[:digits])) is not None:
                return name
        return f"Unknown class ({code})"


def parse(lines: Iterable[str], vendors: Set[str]) -> PciNames:
    """The names of all classes and vendors, and of the devices of these vendors: all of them would fill megabytes."""
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
    """Each entry's ids, from the outermost, and its name. The depth of an entry is the number of tabs before it."""
    path: list[str] = []
    for line in lines:
        entry = line.lstrip("\t")
        depth = len(line) - len(entry)
        number, gap, name = entry.partition("  ")
        if not gap or entry.startswith("#"):
            continue
        ids = ["C", number[2:]] if depth == 0 and number.startswith("C ") else [number]
        if depth and path[:1] == ["C"]:
            depth += 1  # a class takes two places of the path
        if len(path) >= depth:
            path[depth:] = ids
            yield path, name.strip()
