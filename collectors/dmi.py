"""Vendor, model and serial numbers of this machine from the DMI tables, <sysfs>/class/dmi/id."""

from collections.abc import Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, SourceAbsentError
from collectors.shared import sysfs

_LABELS = (
    *("bios_date", "bios_release", "bios_vendor", "bios_version"),
    *("board_asset_tag", "board_name", "board_serial", "board_vendor", "board_version"),
    *("chassis_asset_tag", "chassis_serial", "chassis_vendor", "chassis_version"),
    *("product_family", "product_name", "product_serial", "product_sku", "product_uuid"),
    *("product_version", "system_vendor"),
)
METRICS = Table(
    Metric(
        "node_dmi_info",
        "gauge",
        f"A metric with a constant '1' value labeled by {', '.join(_LABELS)} if provided by DMI.",
        "<sysfs>/class/dmi/id/*",
        _LABELS,
    )
)

_FILES = {"system_vendor": "sys_vendor"}  # label to file, if they differ


class Dmi:
    """The `dmi` collector. Read once, since the tables are constant until the next boot."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.sysfs / "class/dmi/id"
        self._family: Family | None = None

    def collect(self) -> Iterator[Family]:
        """Read the source the first time. Serial numbers are readable by root only; missing values have no label."""
        if self._family is None:
            self._family = self._read()
        yield self._family

    def _read(self) -> Family:
        names = sysfs.listing(self._directory)
        labels = {}
        for label in _LABELS:
            file = _FILES.get(label, label)
            text = sysfs.attribute(f"{self._directory}/{file}") if file in names else None
            if text is not None:
                labels[label] = text
        if not labels:
            raise SourceAbsentError(f"{self._directory}: nothing in it")
        return METRICS.facts("node_dmi_info", [labels])


ENTRY = Entry(
    build=lambda host, _: Dmi(host),
    metrics=METRICS,
    about="vendor, model and serial numbers of the machine",
    needs="root for serial numbers",
)
