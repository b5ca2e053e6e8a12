"""The generated page docs/collectors.md: all collectors of the agent, and those of node_exporter that it does not have."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from agent import node_exporter
from collectors import registry
from collectors.interface.metric import Table

TableWriter = Callable[[Sequence[str], Iterable[Sequence[str]]], Iterable[str]]

_MOST_SOURCES = 3
_VARIABLE = re.compile(r"/[^/]*[*<,{].*")


_DIFFERENCES = (
    "Names, types, labels and HELP are those of node_exporter 1.12, except:",
    "",
    "- Missing data is absent: NFS procedures, XFS counters or Btrfs commits that a kernel does not have are not exported as 0.",
    "- `node_drbd_network_received_bytes_total` and `node_nvme_namespace_*_bytes` are in bytes; node_exporter takes another unit.",
    "- `node_tcp_connection_states` has all states, also those without a socket, and its bytes do not include the queues of",
    "  listening sockets, which hold connections.",
    "- `node_perf_*` are scaled if the CPU has fewer counters than events were chosen.",
    "- `node_supervisord_start_time_seconds` is a gauge, since its name is not one of a counter.",
    "- `node_scrape_collector_success` is 1 where the hardware is absent for collectors that only this agent has, as for bcache and",
    "  edac of node_exporter; for other absent sources it is 0, as in node_exporter.",
    "- `/debug/pprof`, `--web.listen-address=vsock://...` and profiles of the process do not exist: the agent is no Go program.",
    "- Newer labels: `node_disk_info{rotational}` is in node_exporter from 1.8 on; Debian 12 has 1.5.",
    "- Counts in `node_bcachefs_errors_total` that reach into the next column of the kernel's table are separated from it.",
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
    yield from ("", "## Differences from node_exporter", "", *_DIFFERENCES)
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
