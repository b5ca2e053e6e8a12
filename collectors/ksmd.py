"""Pages merged by kernel same-page merging (KSM), from <sysfs>/kernel/mm/ksm."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, MetricType
from collectors.shared.formats.numerals import parse_uint

_SOURCE = "<sysfs>/kernel/mm/ksm"


def _row(file: str, name: str, text: str, kind: MetricType = "gauge", unit: str = "") -> Metric:
    return Metric(f"node_ksmd_{name}", kind, text, f"{_SOURCE}/{file}", unit=unit)


_FILES = {
    "full_scans": _row(
        "full_scans",
        "full_scans_total",
        "How many times all mergeable areas have been scanned.",
        "counter",
    ),
    "general_profit": _row(
        "general_profit",
        "general_profit_bytes",
        "How effective is KSM. ksm_saved_pages * sizeof(page) - (all_rmap_items) * sizeof(rmap_item)",
        unit="bytes",
    ),
    "merge_across_nodes": _row(
        "merge_across_nodes",
        "merge_across_nodes",
        "Specifies if pages from different NUMA nodes can be merged.",
    ),
    "pages_shared": _row("pages_shared", "pages_shared", "How many shared pages are being used."),
    "pages_sharing": _row(
        "pages_sharing",
        "pages_sharing",
        "How many more sites are sharing them i.e. how much saved.",
    ),
    "pages_to_scan": _row(
        "pages_to_scan", "pages_to_scan", "How many pages to scan before ksmd goes to sleep."
    ),
    "pages_unshared": _row(
        "pages_unshared",
        "pages_unshared",
        "How many pages unique but repeatedly checked for merging.",
    ),
    "pages_volatile": _row(
        "pages_volatile",
        "pages_volatile",
        "How many pages changing too fast to be placed in a tree.",
    ),
    "run": _row("run", "run", "The status of ksmd. stopped = 0, running = 1"),
    "sleep_millisecs": _row(
        "sleep_millisecs",
        "sleep_seconds",
        "How many seconds ksmd should sleep before next scan.",
        unit="seconds",
    ),
}
METRICS = Table(*_FILES.values())

_MILLISECONDS = 1000


def parse(file: str, text: str) -> Family:
    """Return the family of a file. The profit may be negative."""
    text = text.strip()
    try:
        value: float = parse_uint(text.removeprefix("-"))
    except ValueError as error:
        raise CollectorError(f"ksm/{file}: {error}") from error
    if text.startswith("-"):
        value = -value
    if file == "sleep_millisecs":
        value /= _MILLISECONDS
    return METRICS.single(_FILES[file].name, value)


class Ksmd:
    """The `ksmd` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.sysfs / "kernel/mm/ksm"

    def collect(self) -> Iterator[Family]:
        """Read the sources, which depend on the kernel's version."""
        for file, text in host.read_each(self._directory, tuple(_FILES)).items():
            try:
                yield parse(file, text)
            except CollectorError as error:
                guard.skip(error, _FILES[file].name)


ENTRY = Entry(
    build=lambda host, _: Ksmd(host), metrics=METRICS, about="kernel same-page merging", on=False
)
