"""NFS server: calls, procedures, I/O and caches, from <procfs>/net/rpc/nfsd."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import netroot
from collectors.shared.formats import nfsrpc

_FILE = "<procfs>/1/net/rpc/nfsd"
# Key and index of the number, the metric's name after node_nfsd_, its HELP.
_NUMBERS = (
    ("rc", 0, "reply_cache_hits_total", "Total number of NFSd Reply Cache hits (client lost server response)."),
    ("rc", 1, "reply_cache_misses_total", "Total number of NFSd Reply Cache an operation that requires caching (idempotent)."),
    ("rc", 2, "reply_cache_nocache_total", "Total number of NFSd Reply Cache non-idempotent operations (rename/delete/\N{HORIZONTAL ELLIPSIS})."),
    ("fh", 0, "file_handles_stale_total", "Total number of NFSd stale file handles"),
    ("io", 0, "disk_bytes_read_total", "Total NFSd bytes read."),
    ("io", 1, "disk_bytes_written_total", "Total NFSd bytes written."),
    ("th", 0, "server_threads", "Total number of NFSd kernel threads that are running."),
    ("ra", 0, "read_ahead_cache_size_blocks", "How large the read ahead cache is in blocks."),
    ("ra", 11, "read_ahead_cache_not_found_total", "Total number of NFSd read ahead cache not found."),
    ("net", 3, "connections_total", "Total number of NFSd TCP connections."),
    ("rpc", 0, "server_rpcs_total", "Total number of NFSd RPCs."),
)  # fmt: skip
METRICS = Table(
    *(
        Metric(f"node_nfsd_{name}", "counter" if name.endswith("_total") else "gauge", about, _FILE)
        for _, _, name, about in _NUMBERS
    ),
    Metric(
        "node_nfsd_packets_total",
        "counter",
        "Total NFSd network packets (sent+received) by protocol type.",
        _FILE,
        ("proto",),
    ),
    Metric(
        "node_nfsd_rpc_errors_total",
        "counter",
        "Total number of NFSd RPC errors by error type.",
        _FILE,
        ("error",),
    ),
    Metric(
        "node_nfsd_requests_total",
        "counter",
        "Total number NFSd Requests by method and protocol.",
        _FILE,
        ("proto", "method"),
    ),
)
# By operation number (RFC 7530); those named - are not exported: reserved, PUTPUBFH, PUTROOTFH.
_V4_NAMES = (
    "- - - Access Close Commit Create DelegPurge DelegReturn GetAttr GetFH Link Lock Lockt Locku Lookup LookupRoot Nverify "
    "Open OpenAttr OpenConfirm OpenDgrd PutFH - - Read ReadDir ReadLink Remove Rename Renew RestoreFH SaveFH SecInfo SetAttr "
    "SetClientID SetClientIDConfirm Verify Write RelLockOwner"
)
_V4 = _V4_NAMES.split()


@guard.some
def parse(text: str) -> Iterator[Family]:
    """Yield the families. Caches and protocol versions that the kernel does not have are absent."""
    found = nfsrpc.parse("nfsd", text)
    for key, index, name, _ in _NUMBERS:
        if values := nfsrpc.numbers("nfsd", found, key, index + 1):
            yield METRICS.single(f"node_nfsd_{name}", float(values[index]))
    if network := nfsrpc.numbers("nfsd", found, "net", 4):
        packets = [(("udp",), float(network[1])), (("tcp",), float(network[2]))]
        yield METRICS.family("node_nfsd_packets_total", packets)
    if rpc := nfsrpc.numbers("nfsd", found, "rpc", 5):
        errors = zip(("fmt", "auth", "cInt"), rpc[2:5], strict=True)
        yield METRICS.family(
            "node_nfsd_rpc_errors_total", (((error,), float(n)) for error, n in errors)
        )
    lines = (
        ("proc2", "2", ["-", *nfsrpc.V2[1:]]),
        ("proc3", "3", ["-", *nfsrpc.V3[1:]]),
        ("proc4ops", "4", _V4),
    )
    rows = [
        row
        for key, version, names in lines
        for row in nfsrpc.procedures("nfsd", found, key, version, names)
    ]
    if delegations := nfsrpc.numbers("nfsd", found, "wdeleg_getattr", 1):
        rows.append((("4", "WdelegGetattr"), float(delegations[0])))
    if rows:
        yield METRICS.family("node_nfsd_requests_total", rows)


class Nfsd:
    """The `nfsd` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = netroot.directory(machine) / "rpc/nfsd"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: Nfsd(host),
    metrics=METRICS,
    about="NFS server: calls by procedure, I/O, caches",
    source="<net>/rpc/nfsd",
)
