"""Cache occupancy, memory bandwidth and their limits (RDT, PQoS, MPAM), from <sysfs>/fs/resctrl, read only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, MetricType
from collectors.resctrl.formats import (
    BandwidthSums,
    ControlGroup,
    Group,
    Unread,
    container_id,
    occupancy,
    pod_uid,
)
from collectors.resctrl.resctrltree import Tree
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint
from plimsoll.flags import option

_ROOT = "<sysfs>/fs/resctrl"
_GROUP = ("control_group", "monitor_group")


def _row(
    name: str, text: str, source: str, labels: tuple[str, ...] = (), *, unit: str = ""
) -> Metric:
    kind: MetricType = "counter" if name.endswith("_total") else "gauge"
    return Metric(f"node_resctrl_{name}", kind, text, source, labels, unit, node_exporter=False)


METRICS = Table(
    _row(
        "llc_occupancy_bytes",
        "Bytes of the last level cache that are in use, by L3 domain.",
        f"{_ROOT}/**/mon_L3_*/llc_occupancy",
        ("domain",),
        unit="bytes",
    ),
    _row(
        "memory_bandwidth_bytes_total",
        "Bytes moved between the last level cache and memory since the agent started, by L3 domain; "
        "scope local is memory of the same NUMA node.",
        f"{_ROOT}/**/mon_L3_*/mbm_*_bytes",
        ("domain", "scope"),
        unit="bytes",
    ),
    _row(
        "llc_size_bytes",
        "Size of the last level cache, by L3 domain.",
        "<sysfs>/devices/system/cpu/cpu*/cache/index*/size",
        ("domain",),
        unit="bytes",
    ),
    _row(
        "schemata",
        "What a control group may use of a resource: for caches the bit mask as a number, "
        "for memory bandwidth the limit in the kernel's unit (percent, MBps or 1/8 GBps).",
        f"{_ROOT}/**/schemata",
        ("control_group", "resource", "domain"),
    ),
    _row(
        "rmids",
        "How many groups the hardware can monitor at once.",
        f"{_ROOT}/info/L3_MON/num_rmids",
    ),
    _row(
        "unavailable_reads_total",
        "Readings that the kernel had no number for, by what it said instead.",
        f"{_ROOT}/**/mon_L3_*/*",
        ("reason",),
    ),
    _row(
        "group_llc_occupancy_bytes",
        "Bytes of the last level cache that a group uses; a control group's include those of its monitor groups.",
        f"{_ROOT}/**/mon_L3_*/llc_occupancy",
        (*_GROUP, "domain"),
        unit="bytes",
    ),
    _row(
        "group_memory_bandwidth_bytes_total",
        "Bytes a group moved between the last level cache and memory since the agent knows it; "
        "a control group's include those of its monitor groups.",
        f"{_ROOT}/**/mon_L3_*/mbm_*_bytes",
        (*_GROUP, "domain", "scope"),
        unit="bytes",
    ),
    _row(
        "group_info",
        "The pod and the container in a group's name.",
        _ROOT,
        (*_GROUP, "pod_uid", "container_id"),
    ),
)


_OCCUPANCY = "llc_occupancy"
_SCOPES = {"mbm_total_bytes": "total", "mbm_local_bytes": "local"}


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    resctrl_groups: bool = option(
        "collector.resctrl.groups",
        False,
        "export node_resctrl_group_* for every control group and monitor group",
    )


_L3 = 3
_KIBIBYTE = 1024


def parse_size(text: str) -> int | None:
    """Parse the kernel's cache sizes, `61440K`, as bytes; None for anything else."""
    try:
        return parse_uint(text.strip().removesuffix("K")) * _KIBIBYTE if "K" in text else None
    except ValueError:
        return None


class LlcSizes:
    """Cache sizes, read again only when a CPU is added or removed."""

    def __init__(self, sysfs_root: Path) -> None:
        self._base = f"{sysfs_root}/devices/system/cpu"
        self._online: str | None = None
        self._sizes: Mapping[str, int] = {}

    def get(self) -> Mapping[str, int]:
        """Return bytes by cache id. Caches without an id, as in some virtual machines, are omitted."""
        online = sysfs.attribute(f"{self._base}/online")
        if online is None or online != self._online:
            self._sizes = self._find()
            self._online = online
        return self._sizes

    def _find(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for cpu in sysfs.listing_optional(self._base):
            directory = f"{self._base}/{cpu}/cache"
            for index in sysfs.listing_optional(directory) if cpu[3:].isdigit() else ():
                if sysfs.number(f"{directory}/{index}/level") != _L3:
                    continue
                cache = sysfs.number(f"{directory}/{index}/id")
                size = parse_size(sysfs.attribute(f"{directory}/{index}/size") or "")
                if cache is not None and size is not None:
                    sizes.setdefault(str(cache), size)
        return sizes


class Resctrl:
    """The `resctrl` collector."""

    def __init__(self, machine: Host, options: Options) -> None:
        self._tree = Tree(machine.sysfs / "fs/resctrl")
        self._caches = LlcSizes(machine.sysfs)
        self._with_groups = options.resctrl_groups
        self._sums = BandwidthSums(frozenset(_SCOPES))
        self._unread = dict.fromkeys(Unread, 0)

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        self._tree.check()
        limits = {tuple(labels): value for *labels, value in self._tree.schemata()}
        if limits:
            yield METRICS.family("node_resctrl_schemata", limits.items())
        events = [event for event in self._tree.events() if event in (_OCCUPANCY, *_SCOPES)]
        if events:
            yield from self._monitoring(self._tree.groups(events))
        sizes = [((domain,), size) for domain, size in self._caches.get().items()]
        if sizes:
            yield METRICS.family("node_resctrl_llc_size_bytes", sizes)

    def _monitoring(self, controls: Sequence[ControlGroup]) -> Iterator[Family]:
        self._sums.advance(controls)
        used = [((domain,), used) for domain, used in occupancy(controls, _OCCUPANCY).items()]
        if used:
            yield METRICS.family("node_resctrl_llc_occupancy_bytes", used)
        moved = [
            ((domain, _SCOPES[event]), total)
            for (domain, event), total in self._sums.node().items()
        ]
        if moved:
            yield METRICS.family("node_resctrl_memory_bandwidth_bytes_total", moved)
        if (rmids := self._tree.rmids()) is not None:
            yield METRICS.single("node_resctrl_rmids", rmids)
        yield self._unavailable(controls)
        if self._with_groups:
            yield from self._groups(controls)

    def _unavailable(self, controls: Sequence[ControlGroup]) -> Family:
        for group in (group for control in controls for group in (control, *control.monitors)):
            for reading in group.readings.values():
                if isinstance(reading, Unread):
                    self._unread[reading] += 1
        rows = (((reason.value.lower(),), count) for reason, count in self._unread.items())
        return METRICS.family("node_resctrl_unavailable_reads_total", rows)

    def _groups(self, controls: Sequence[ControlGroup]) -> Iterator[Family]:
        named: list[tuple[tuple[str, str], Group]] = []
        for control in controls:
            named.append(((control.name, ""), control))
            named += (((control.name, monitor.name), monitor) for monitor in control.monitors)
        used = [
            ((*names, domain), reading)
            for names, group in named
            for (domain, event), reading in group.readings.items()
            if event == _OCCUPANCY and isinstance(reading, int)
        ]
        if used:
            yield METRICS.family("node_resctrl_group_llc_occupancy_bytes", used)
        moved = [
            ((*names, domain, _SCOPES[event]), total)
            for names, group in named
            for (domain, event), total in self._sums.of(group).items()
        ]
        if moved:
            yield METRICS.family("node_resctrl_group_memory_bandwidth_bytes_total", moved)
        infos = (((*names, *_owner(*names)), 1.0) for names, _ in named)
        yield METRICS.family("node_resctrl_group_info", infos)


def _owner(control: str, monitor: str) -> tuple[str, str]:
    """Return pod uid and container id from the monitor group's name, else from the control group's."""
    return (
        pod_uid(monitor) or pod_uid(control),
        container_id(monitor) or container_id(control),
    )


ENTRY = Entry(
    optional=True,
    build=Resctrl,
    metrics=METRICS,
    about="cache occupancy and memory bandwidth (RDT), by resctrl",
    options=Options,
    needs="mounted resctrl",
)
