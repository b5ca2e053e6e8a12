"""NFS client: packets, calls and procedures, from <procfs>/net/rpc/nfs."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import netroot
from collectors.shared.formats import nfsrpc

_FILE = "<procfs>/1/net/rpc/nfs"
METRICS = Table(
    Metric(
        "node_nfs_packets_total",
        "counter",
        "Total NFSd network packets (sent+received) by protocol type.",
        _FILE,
        ("protocol",),
    ),
    Metric("node_nfs_connections_total", "counter", "Total number of NFSd TCP connections.", _FILE),
    Metric("node_nfs_rpcs_total", "counter", "Total number of RPCs performed.", _FILE),
    Metric(
        "node_nfs_rpc_retransmissions_total",
        "counter",
        "Number of RPC transmissions performed.",
        _FILE,
    ),
    Metric(
        "node_nfs_rpc_authentication_refreshes_total",
        "counter",
        "Number of RPC authentication refreshes performed.",
        _FILE,
    ),
    Metric(
        "node_nfs_requests_total",
        "counter",
        "Number of NFS procedures invoked.",
        _FILE,
        ("proto", "method"),
    ),
)
# The order of NFSPROC4_CLNT_* in the kernel's include/linux/nfs4.h
_V4_NAMES = (
    "Null Read Write Commit Open OpenConfirm OpenNoattr OpenDowngrade Close Setattr FsInfo Renew SetClientID "
    "SetClientIDConfirm Lock Lockt Locku Access Getattr Lookup LookupRoot Remove Rename Link Symlink Create Pathconf StatFs "
    "ReadLink ReadDir ServerCaps DelegReturn GetACL SetACL FsLocations ReleaseLockowner Secinfo FsidPresent ExchangeID "
    "CreateSession DestroySession Sequence GetLeaseTime ReclaimComplete GetDeviceInfo LayoutGet LayoutCommit LayoutReturn "
    "SecinfoNoName TestStateID FreeStateID GetDeviceList BindConnToSession DestroyClientID Seek Allocate DeAllocate "
    "LayoutStats Clone"
)
_V4 = _V4_NAMES.split()


@guard.some
def parse(text: str) -> Iterator[Family]:
    """Yield the families. Procedures that the kernel does not have are absent."""
    lines = nfsrpc.parse("nfs", text)
    if network := nfsrpc.numbers("nfs", lines, "net", 4):
        _, udp, tcp, connections = network[:4]
        packets = [(("udp",), float(udp)), (("tcp",), float(tcp))]
        yield METRICS.family("node_nfs_packets_total", packets)
        yield METRICS.single("node_nfs_connections_total", float(connections))
    if rpc := nfsrpc.numbers("nfs", lines, "rpc", 3):
        yield METRICS.single("node_nfs_rpcs_total", float(rpc[0]))
        yield METRICS.single("node_nfs_rpc_retransmissions_total", float(rpc[1]))
        yield METRICS.single("node_nfs_rpc_authentication_refreshes_total", float(rpc[2]))
    versions = (("2", nfsrpc.V2), ("3", nfsrpc.V3), ("4", _V4))
    rows = [
        row
        for version, names in versions
        for row in nfsrpc.procedures("nfs", lines, f"proc{version}", version, names)
    ]
    if rows:
        yield METRICS.family("node_nfs_requests_total", rows)


class Nfs:
    """The `nfs` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = netroot.directory(machine) / "rpc/nfs"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: Nfs(host),
    metrics=METRICS,
    about="NFS client: calls by procedure",
    source="<net>/rpc/nfs",
)
