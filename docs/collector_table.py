"""The generated page docs/collectors.md: all collectors of the agent, and those of node_exporter that it does not have."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from agent import node_exporter
from collectors import registry
from collectors.interface.metric import Table

TableWriter = Callable[[Sequence[str], Iterable[Sequence[str]]], Iterable[str]]

_MOST_SOURCES = 3
_VARIABLE = re.compile(r"/[^/]*[*<,{].*")


_DIFFERENCES: Sequence[tuple[str, str, str]] = (
    (
        "NFS procedures, NFS over UDP's connects and idle time, XFS counters, Btrfs commits that the kernel does not have",
        "0",
        "absent",
    ),
    ("`node_filesystem_purgeable_bytes`, of macOS", "0 on Linux", "absent"),
    (
        "`node_pcidevice_*_link_*` of devices that report no link, `node_pcidevice_sriov_*` without SR-IOV",
        "-1, 0",
        "absent",
    ),
    (
        "`node_drbd_network_received_bytes_total`",
        "KiB, of a counter whose name says bytes",
        "bytes",
    ),
    (
        "`node_nvme_namespace_capacity_bytes`, `..._size_bytes`",
        "sectors of 512 bytes, multiplied by the block size",
        "bytes",
    ),
    (
        "`node_bcachefs_errors_total`: a count that reaches into the next column of the kernel's table",
        "joined with that column",
        "the count",
    ),
    (
        "`node_tcp_connection_states`",
        "states with a socket; queued bytes include the queues of listening sockets, which hold connections",
        "all states; bytes only",
    ),
    (
        "`node_perf_*`, if the CPU has fewer counters than events were chosen",
        "as counted",
        "scaled",
    ),
    ("`node_supervisord_start_time_seconds`", "counter", "gauge"),
    (
        "one value or line that cannot be read, such as a negative `processes` of `/proc/stat`",
        "the collector fails",
        "that value is absent, and counted in `node_scrape_collector_skipped_total`",
    ),
    (
        "`node_hwmon_*` of chips that share a device, and of files that a chip has twice",
        "duplicate series: an error",
        "the chip's name appended, one series",
    ),
    (
        "`node_processes_threads` if a process has more threads than Linux can have; `node_thermal_zone_temp` below absolute zero",
        "exported",
        "left out",
    ),
    (
        "`node_scrape_collector_success` of collectors whose hardware is absent",
        "0; 1 for bcache, drm, edac",
        "0; 1 for bcache, edac and collectors that only the agent has",
    ),
    (
        "`node_memory_Balloon_bytes`, `..._FileHugePages_bytes`, `..._Hugetlb_bytes` and other lines of newer kernels",
        "absent",
        "every line of `/proc/meminfo`",
    ),
    ("`node_ksmd_general_profit_bytes`, HELP of `node_ksmd_*`", "after 1.12", "there"),
    ("`/debug/pprof`, `--web.listen-address=vsock://...`", "there", "none: no Go program"),
)


def page(table: TableWriter) -> Iterator[str]:
    """Return the lines of the page. `table` formats a header and rows."""
    yield "# Collectors"
    yield ""
    yield "For administrators who choose what agents measure."
    yield ""
    yield "Enable a collector with `--collector.<name>`, disable it with `--no-collector.<name>`. Further flags of each"
    yield "collector: [flags](flags.md). Metrics: [metrics](metrics.md)."
    yield ""
    yield "A collector without a source on the machine exports nothing and is no error. Opt-in collectors, and those for rare"
    yield "hardware, take no memory until they are needed."
    yield ""
    rows = [
        (
            f"`{name}`",
            "on" if entry.on else "opt-in",
            entry.about,
            ", ".join(f"`{source}`" for source in sources(entry.metrics)),
            entry.needs,
        )
        for name, entry in sorted(registry.entries().items())
    ]
    yield from table(("collector", "default", "exports", "reads", "needs"), rows)
    yield from ("", "## Differences from node_exporter", "")
    yield "Names, types, labels, values and HELP are those of node_exporter 1.12 on its own fixtures and on a virtual machine, except:"
    yield ""
    yield from table(("what", "node_exporter", "agent"), _DIFFERENCES)
    yield from ("", "## Collectors of node_exporter that are not available", "")
    yield "Their flags are accepted, have no effect, and are named in one warning when the agent starts, as are these flags:"
    others = [f for f in node_exporter.IGNORED if f.split(".")[-1] not in node_exporter.UNAVAILABLE]
    yield ", ".join(f"`--{flag}`" for flag in sorted(others)) + "."
    yield ""
    yield from table(
        ("collector", "reason"),
        ((f"`{name}`", reason) for name, reason in sorted(node_exporter.UNAVAILABLE.items())),
    )


def sources(metrics: Table) -> Sequence[str]:
    """Return what a collector reads: the constant parts of the paths in its table, at most a few."""
    found = dict.fromkeys(
        _VARIABLE.sub("", source.strip())
        for metric in metrics
        for source in metric.source.split(", ")[:1]
        if source
    )
    roots = [s for s in found if not any(s.startswith(f"{other}/") for other in found)]
    return [*roots[:_MOST_SOURCES], *(["..."] if len(roots) > _MOST_SOURCES else [])]
