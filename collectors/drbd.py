"""Replicated block devices (DRBD up to 8.4), from <procfs>/drbd."""

import re
from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared.formats.numerals import parse_uint

# Key in the file, the metric's name after node_drbd_, its HELP, and the number's unit in bytes.
_NUMBERS = (
    ("ns", "network_sent_bytes_total", "Total number of bytes sent via the network.", 1024),
    ("nr", "network_received_bytes_total", "Total number of bytes received via the network.", 1024),
    ("dw", "disk_written_bytes_total", "Net data written on local hard disk; in bytes.", 1024),
    ("dr", "disk_read_bytes_total", "Net data read from local hard disk; in bytes.", 1024),
    ("al", "activitylog_writes_total", "Number of updates of the activity log area of the meta data.", 1),
    ("bm", "bitmap_writes_total", "Number of updates of the bitmap area of the meta data.", 1),
    ("lo", "local_pending", "Number of open requests to the local I/O sub-system.", 1),
    ("pe", "remote_pending", "Number of requests sent to the peer, but that have not yet been answered by the latter.", 1),
    ("ua", "remote_unacknowledged", "Number of requests received by the peer via the network connection, but that have not yet been answered.", 1),
    ("ap", "application_pending", "Number of block I/O requests forwarded to DRBD, but not yet answered by DRBD.", 1),
    ("ep", "epochs", "Number of Epochs currently on the fly.", 1),
    ("oos", "out_of_sync_bytes", "Amount of data known to be out of sync; in bytes.", 1024),
)  # fmt: skip
METRICS = Table(
    *(
        Metric(
            f"node_drbd_{name}",
            "counter" if name.endswith("_total") else "gauge",
            about,
            "<procfs>/drbd",
            ("device",),
            "bytes" if scale > 1 else "",
        )
        for _, name, about, scale in _NUMBERS
    ),
    Metric(
        "node_drbd_node_role_is_primary",
        "gauge",
        "Whether the role of the node is in the primary state.",
        "<procfs>/drbd",
        ("device", "node"),
    ),
    Metric(
        "node_drbd_disk_state_is_up_to_date",
        "gauge",
        "Whether the disk of the node is up to date.",
        "<procfs>/drbd",
        ("device", "node"),
    ),
    Metric(
        "node_drbd_connected",
        "gauge",
        "Whether DRBD is connected to the peer.",
        "<procfs>/drbd",
        ("device",),
    ),
)
# node_exporter exports `nr` without its unit, KiB.
_SCALES = {key: (f"node_drbd_{name}", scale) for key, name, _, scale in _NUMBERS}
_PAIRS = {
    "ro": ("node_drbd_node_role_is_primary", "Primary"),
    "ds": ("node_drbd_disk_state_is_up_to_date", "UpToDate"),
}
_DEVICE = re.compile(r"\s*([0-9]+): (cs:.*)", re.ASCII)
Row = tuple[str, tuple[str, ...], float]


@guard.some
def parse(text: str) -> Iterator[Row]:
    """Yield a metric's name, its labels and its value. A device's lines follow the one with its number and `cs:`."""
    device = ""
    for line in text.splitlines():
        values = line
        if (match := _DEVICE.fullmatch(line)) is not None:
            device, values = f"drbd{match[1]}", match[2]
        for word in values.split() if device else ():
            key, _, value = word.partition(":")
            yield from _values(device, key, value)


def _values(device: str, key: str, value: str) -> Iterator[Row]:
    if key in _SCALES:
        name, scale = _SCALES[key]
        try:
            yield name, (device,), float(parse_uint(value) * scale)
        except ValueError as error:
            guard.skip(f"drbd: {key} {error}", name)
    elif key in _PAIRS:
        name, good = _PAIRS[key]
        for node, state in zip(("local", "remote"), value.split("/"), strict=False):
            yield name, (device, node), float(state == good)
    elif key == "cs":
        yield "node_drbd_connected", (device,), float(value == "Connected")


class Drbd:
    """The `drbd` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "drbd"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        rows: dict[str, dict[tuple[str, ...], float]] = {}
        for name, labels, value in parse(host.read(self._path)):
            rows.setdefault(name, {})[labels] = value
        for name, samples in rows.items():
            yield METRICS.family(name, samples.items())


ENTRY = Entry(
    build=lambda host, _: Drbd(host),
    metrics=METRICS,
    about="replicated block devices (DRBD 8)",
    on=False,
)
