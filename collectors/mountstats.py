"""NFS mounts: bytes, events, transports and operations of each, from <procfs>/self/mountstats."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, MetricType
from collectors.shared import mounts
from collectors.shared.formats.numerals import parse_uints

_FILE = "<procfs>/1/mountstats"
_MOUNT = ("export", "protocol", "mountaddr")
# The metric's name after node_mountstats_nfs_, its HELP; in the order of the numbers in the file.
# fmt: off
_BYTES = (
    ("read_bytes_total", "Number of bytes read using the read() syscall."),
    ("write_bytes_total", "Number of bytes written using the write() syscall."),
    ("direct_read_bytes_total", "Number of bytes read using the read() syscall in O_DIRECT mode."),
    ("direct_write_bytes_total", "Number of bytes written using the write() syscall in O_DIRECT mode."),
    ("total_read_bytes_total", "Number of bytes read from the NFS server, in total."),
    ("total_write_bytes_total", "Number of bytes written to the NFS server, in total."),
    ("read_pages_total", "Number of pages read directly via mmap()'d files."),
    ("write_pages_total", "Number of pages written directly via mmap()'d files."),
)
_EVENTS = (
    ("event_inode_revalidate_total", "Number of times cached inode attributes are re-validated from the server."),
    ("event_dnode_revalidate_total", "Number of times cached dentry nodes are re-validated from the server."),
    ("event_data_invalidate_total", "Number of times an inode cache is cleared."),
    ("event_attribute_invalidate_total", "Number of times cached inode attributes are invalidated."),
    ("event_vfs_open_total", "Number of times cached inode attributes are invalidated."),
    ("event_vfs_lookup_total", "Number of times a directory lookup has occurred."),
    ("event_vfs_access_total", "Number of times permissions have been checked."),
    ("event_vfs_update_page_total", "Number of updates (and potential writes) to pages."),
    ("event_vfs_read_page_total", "Number of pages read directly via mmap()'d files."),
    ("event_vfs_read_pages_total", "Number of times a group of pages have been read."),
    ("event_vfs_write_page_total", "Number of pages written directly via mmap()'d files."),
    ("event_vfs_write_pages_total", "Number of times a group of pages have been written."),
    ("event_vfs_getdents_total", "Number of times directory entries have been read with getdents()."),
    ("event_vfs_setattr_total", "Number of times directory entries have been read with getdents()."),
    ("event_vfs_flush_total", "Number of pending writes that have been forcefully flushed to the server."),
    ("event_vfs_fsync_total", "Number of times fsync() has been called on directories and files."),
    ("event_vfs_lock_total", "Number of times locking has been attempted on a file."),
    ("event_vfs_file_release_total", "Number of times files have been closed and released."),
    ("", ""),  # congestion_wait, which is not exported
    ("event_truncation_total", "Number of times files have been truncated."),
    ("event_write_extension_total", "Number of times a file has been grown due to writes beyond its existing end."),
    ("event_silly_rename_total", "Number of times a file was removed while still open by another process."),
    ("event_short_read_total", "Number of times the NFS server gave less data than expected while reading."),
    ("event_short_write_total", "Number of times the NFS server wrote less data than expected while writing."),
    ("event_jukebox_delay_total", "Number of times the NFS server indicated EJUKEBOX; retrieving data from offline storage."),
    ("event_pnfs_read_total", "Number of NFS v4.1+ pNFS reads."),
    ("event_pnfs_write_total", "Number of NFS v4.1+ pNFS writes."),
)
_OPERATIONS = (
    ("operations_requests_total", "Number of requests performed for a given operation."),
    ("operations_transmissions_total", "Number of times an actual RPC request has been transmitted for a given operation."),
    ("operations_major_timeouts_total", "Number of times a request has had a major timeout for a given operation."),
    ("operations_sent_bytes_total", "Number of bytes sent for a given operation, including RPC headers and payload."),
    ("operations_received_bytes_total", "Number of bytes received for a given operation, including RPC headers and payload."),
    ("operations_queue_time_seconds_total", "Duration all requests spent queued for transmission for a given operation before they were sent, in seconds."),
    ("operations_response_time_seconds_total", "Duration all requests took to get a reply back after a request for a given operation was transmitted, in seconds."),
    ("operations_request_time_seconds_total", "Duration all requests took from when a request was enqueued to when it was completely handled for a given operation, in seconds."),
)
_TRANSPORTS = {  # by column
    "bind": ("transport_bind_total", "Number of times the client has had to establish a connection from scratch to the NFS server."),
    "connect": ("transport_connect_total", "Number of times the client has made a TCP connection to the NFS server."),
    "idle": ("transport_idle_time_seconds", "Duration since the NFS mount last saw any RPC traffic, in seconds."),
    "sends": ("transport_sends_total", "Number of RPC requests for this mount sent to the NFS server."),
    "receives": ("transport_receives_total", "Number of RPC responses for this mount received from the NFS server."),
    "bad": ("transport_bad_transaction_ids_total", "Number of times the NFS server sent a response with a transaction ID unknown to this client."),
    "backlog": ("transport_backlog_queue_total", "Total number of items added to the RPC backlog queue."),
    "slots": ("transport_maximum_rpc_slots", "Maximum number of simultaneously active RPC requests ever used."),
    "sending": ("transport_sending_queue_total", "Total number of items added to the RPC transmission sending queue."),
    "pending": ("transport_pending_queue_total", "Total number of items added to the RPC transmission pending queue."),
}
# fmt: on
_TCP = (
    "port",
    "bind",
    "connect",
    "connect_idle",
    "idle",
    "sends",
    "receives",
    "bad",
    "active",
    "backlog",
    "slots",
    "sending",
    "pending",
)  # fmt: skip
_COLUMNS = {"tcp": _TCP, "rdma": _TCP[:10], "udp": (*_TCP[:2], *_TCP[5:])}
_MILLISECONDS = 1000
_PRECISE = 1 << 53  # a time below 0 is written as 2**64 less; its increase stays right as a float


def _metric(name: str, about: str, *labels: str) -> Metric:
    kind: MetricType = "counter" if name.endswith("_total") else "gauge"
    unit = next((u for u in ("bytes", "seconds") if name.removesuffix("_total").endswith(u)), "")
    return Metric(f"node_mountstats_nfs_{name}", kind, about, _FILE, (*_MOUNT, *labels), unit)


METRICS = Table(
    _metric("age_seconds_total", "The age of the NFS mount in seconds."),
    _metric("mountpoint_info", "Info metric for an NFS mountpoint.", "mountpoint"),
    *(_metric(name, about) for name, about in (*_BYTES, *_EVENTS) if name),
    *(_metric(name, about, "transport") for name, about in _TRANSPORTS.values()),
    *(_metric(name, about, "operation") for name, about in _OPERATIONS),
)


@dataclass(slots=True)
class NfsMount:
    """A mount's numbers."""

    export: str
    point: str
    kind: str
    age: int | None = None
    bytes: Sequence[int] = ()
    events: Sequence[int] = ()
    transports: list[tuple[str, Mapping[str, int]]] = field(default_factory=list)
    operations: dict[str, Sequence[int]] = field(default_factory=dict)


def parse(text: str) -> list[NfsMount]:
    """Return the mounts of NFS, in order, without numbers that cannot be read."""
    parsed: list[NfsMount] = []
    within = False
    for line in text.splitlines():
        try:
            match line.split():
                case ["device", export, "mounted", "on", point, "with", "fstype", kind, *_]:
                    if within := kind in {"nfs", "nfs4"}:
                        parsed.append(NfsMount(export, mounts.unescaped(point), kind))
                case [key, *words] if within:
                    _add(parsed[-1], key.removesuffix(":"), words)
                case _:
                    pass
        except ValueError as error:
            guard.skip(f"mountstats: {line.strip()[:60]!r}: {error}")
    return parsed


def _add(mount: NfsMount, key: str, words: list[str]) -> None:
    match key:
        case "age":
            (mount.age,) = parse_uints(words)
        case "bytes":
            mount.bytes = parse_uints(words)
        case "events":
            mount.events = parse_uints(words)
        case "xprt":
            protocol, *numbers = words
            columns = _COLUMNS.get(protocol, ())
            values = parse_uints(numbers[: len(columns)])
            mount.transports.append((protocol, dict(zip(columns, values, strict=False))))
        case operation if operation.isupper() and len(words) >= len(_OPERATIONS):
            mount.operations[operation] = parse_uints(words[: len(_OPERATIONS)])


def parse_addresses(text: str) -> dict[tuple[str, str, str], str]:
    """Return the server's address by export, mount point and file system type, from mountinfo."""
    addresses: dict[tuple[str, str, str], str] = {}
    for line in mounts.lines(text):
        if line.kind.startswith("nfs"):
            pairs = (option.partition("=") for option in line.super_options.split(","))
            address = next((value for name, _, value in pairs if name == "addr"), "")
            addresses[line.device, line.point, line.kind] = address
    return addresses


class MountStats:
    """The `mountstats` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._first, self._own = (machine.procfs / process for process in ("1", "self"))

    def collect(self) -> Iterator[Family]:
        """Read the mounts of process 1, which are the machine's; the agent's own if those are hidden."""
        process = self._first
        try:
            text = host.read(process / "mountstats")
        except CollectorError:
            process = self._own
            text = host.read(process / "mountstats")
        try:
            addresses = parse_addresses(host.read(process / "mountinfo"))
        except CollectorError as error:
            guard.skip(error)
            addresses = {}
        return families(parse(text), addresses)


def families(
    nfs_mounts: Sequence[NfsMount], addresses: Mapping[tuple[str, str, str], str]
) -> Iterator[Family]:
    """Yield the families. Several mounts of one export share its numbers, which are exported once."""
    rows: dict[str, dict[tuple[str, ...], float]] = {}
    exported: set[tuple[str, ...]] = set()
    for mount in nfs_mounts:
        address = addresses.get((mount.export, mount.point, mount.kind), "")
        protocols = dict.fromkeys(protocol for protocol, _ in mount.transports)
        for protocol in protocols:
            info = (mount.export, protocol, address, mount.point)
            rows.setdefault("mountpoint_info", {})[info] = 1.0
        key = mount.export, next(iter(protocols), ""), address
        if protocols and key not in exported:
            exported.add(key)
            for name, labels, value in _numbers(mount):
                rows.setdefault(name, {})[*key, *labels] = value
    for name, values in rows.items():
        yield METRICS.family(f"node_mountstats_nfs_{name}", values.items())


def _numbers(mount: NfsMount) -> Iterator[tuple[str, tuple[str, ...], float]]:
    if mount.age is not None:
        yield "age_seconds_total", (), float(mount.age)
    for rows, values in ((_BYTES, mount.bytes), (_EVENTS, mount.events)):
        for (name, _), value in zip(rows, values, strict=False):
            if name:
                yield name, (), float(value)
    for index, (_, columns) in enumerate(mount.transports):
        for column, (name, _) in _TRANSPORTS.items():
            if column in columns:
                yield name, (str(index),), float(columns[column])
    for operation, values in mount.operations.items():
        for (name, _), value in zip(_OPERATIONS, values, strict=True):
            scale = _MILLISECONDS if "_time_" in name else 1
            yield name, (operation,), value % _PRECISE / scale


ENTRY = Entry(
    build=lambda host, _: MountStats(host),
    metrics=METRICS,
    about="NFS mounts: bytes, events, operations",
    on=False,
    needs="root for the host's mounts",
)
