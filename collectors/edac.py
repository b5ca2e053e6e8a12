"""ECC memory errors by controller, by csrow and channel, and by DIMM, from <sysfs>/devices/system/edac."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_CONTROLLER = "<sysfs>/devices/system/edac/mc/mc*"
_ROW, _DIMM = f"{_CONTROLLER}/csrow*", f"{_CONTROLLER}/dimm*"
_OF_ROW = ("controller", "csrow")
_OF_CHANNEL = ("controller", "csrow", "channel", "dimm_label")
_OF_DIMM = ("controller", "dimm", "dimm_label")


def _pair(part: str, where: str, ce: str, labels: tuple[str, ...]) -> tuple[Metric, Metric]:
    ue, ours = ce.replace("ce_count", "ue_count"), part == "dimm_"
    return (
        Metric(
            f"node_edac_{part}correctable_errors_total",
            "counter",
            f"Total correctable memory errors{where}.",
            ce,
            labels,
            node_exporter=not ours,
        ),
        Metric(
            f"node_edac_{part}uncorrectable_errors_total",
            "counter",
            f"Total uncorrectable memory errors{where}.",
            ue,
            labels,
            node_exporter=not ours,
        ),
    )


METRICS = Table(
    *_pair("", "", f"{_CONTROLLER}/ce_count", ("controller",)),
    *_pair("csrow_", " for this csrow", f"{_ROW}/ce_count", _OF_ROW),
    *_pair("channel_", " for this channel", f"{_ROW}/ch*_ce_count", _OF_CHANNEL),
    *_pair("dimm_", " for this DIMM", f"{_DIMM}/dimm_ce_count", _OF_DIMM),
)


class Count(NamedTuple):
    """A file with an error count, and its labels."""

    metric: str
    path: str
    labels: tuple[str, ...]
    label_path: str = ""
    """File with the DIMM's name: read each time, since rasdaemon writes it some time after boot."""


def counts(directory: str) -> list[Count]:
    """All counter files below the directory of all controllers."""
    return [
        count
        for name in sysfs.listing_optional(directory)
        if (controller := index(name, "mc")) is not None
        for count in _of_controller(f"{directory}/{name}", controller)
    ]


def index(name: str, prefix: str) -> str | None:
    """Return the number in a name such as csrow0."""
    number = name.removeprefix(prefix)
    return number if number != name and number.isdigit() else None


def _of_controller(path: str, controller: str) -> Iterator[Count]:
    for kind, part in (("ce", "correctable"), ("ue", "uncorrectable")):
        total, by_row = (f"node_edac_{of}{part}_errors_total" for of in ("", "csrow_"))
        yield Count(total, f"{path}/{kind}_count", (controller,))
        # Errors for which the controller could not determine the row.
        yield Count(by_row, f"{path}/{kind}_noinfo_count", (controller, "unknown"))
    for name in sysfs.listing_optional(path):
        if (row := index(name, "csrow")) is not None:
            yield from _of_row(f"{path}/{name}", (controller, row))
        for prefix in ("dimm", "rank"):
            if (dimm := index(name, prefix)) is not None:
                yield from _of_dimm(f"{path}/{name}", (controller, dimm))


def _of_row(path: str, labels: tuple[str, str]) -> Iterator[Count]:
    for kind, part in (("ce", "correctable"), ("ue", "uncorrectable")):
        yield Count(f"node_edac_csrow_{part}_errors_total", f"{path}/{kind}_count", labels)
        for name in sysfs.listing_optional(path):
            if (channel := index(name.removesuffix(f"_{kind}_count"), "ch")) is not None:
                metric = f"node_edac_channel_{part}_errors_total"
                label = f"{path}/ch{channel}_dimm_label"
                yield Count(metric, f"{path}/{name}", (*labels, channel), label)


def _of_dimm(path: str, labels: tuple[str, str]) -> Iterator[Count]:
    for kind, part in (("ce", "correctable"), ("ue", "uncorrectable")):
        metric = f"node_edac_dimm_{part}_errors_total"
        yield Count(metric, f"{path}/dimm_{kind}_count", labels, f"{path}/dimm_label")


def dimm_label(text: str | None) -> str:
    """Return a DIMM's name as node_exporter writes it: `CPU_SrcID#0_Chan#1` without #, csrow and channel separated."""
    if text is None:
        return "unknown"
    return text.replace("#", "").replace("csrow", "_csrow").replace("channel", "_channel")


class Edac:
    """The `edac` collector."""

    def __init__(self, machine: host.Host) -> None:
        directory = f"{machine.sysfs}/devices/system/edac/mc"
        self._counts = sysfs.Derived(lambda _: counts(directory), directory)

    def collect(self) -> Iterator[Family]:
        """Read the counters. One that the driver does not provide has no sample."""
        labels: dict[str, str] = {}
        rows: dict[str, list[tuple[Sequence[str], float]]] = {}
        for metric, path, key, label_path in self._counts.get():
            if (value := sysfs.number(path)) is None:
                continue
            if label_path and label_path not in labels:
                labels[label_path] = dimm_label(sysfs.attribute(label_path))
            full = (*key, labels[label_path]) if label_path else key
            rows.setdefault(metric, []).append((full, float(value)))
        for metric, samples in rows.items():
            yield METRICS.family(metric, samples)


ENTRY = Entry(
    optional=True,
    build=lambda host, _: Edac(host),
    metrics=METRICS,
    about="memory errors detected by ECC, also by DIMM",
)
