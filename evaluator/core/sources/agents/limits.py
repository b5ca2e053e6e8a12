"""Limits of the agents' port: times, streams, sizes, gRPC channel options, and its share of file descriptors."""

import resource
from dataclasses import dataclass, replace

from evaluator.core.sources.agents.unadmitted import Bounds
from plimsoll import logs

log = logs.get(__name__)

_BACKSTOP = 1.25
_GRACE = 30.0
_LARGEST_METADATA = 16 << 10
_CERTIFICATES = 64 << 10
"""Bytes that a client may send besides a first report: certificates, metadata, frames."""
_DESCRIPTORS = 3
"""Of a connection: the client's, and both ends of that to gRPC."""
_REPORT_HEAD, _READING_BYTES = 512 + (64 << 10), 13
"""Bytes of a report's header with names of metrics, failing rules and problems, and of each reading: a position of up to 5 bytes and a double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Times in seconds, sizes in bytes."""

    handshake: float = 20.0
    """For the TLS and HTTP/2 handshakes, from the start of the connection. gRPC shakes hands concurrently: when
    thousands of agents reconnect at once, each waits for the others, and a timeout would only cause another attempt.
    """
    reconnect: float = 20.0
    """After the evaluator's start: up to 15 s between two attempts of an agent, then the handshake. Until then nodes
    without a reading are pending.
    """
    introduction: float = 30.0
    """For the first Report of a stream. A connection without a stream may last as long."""
    age: float = 3600.0
    """Maximum age of a stream, so that certificates and tokens are checked again."""
    streams: int = 10_000
    """Concurrent streams of all agents, and concurrent connections."""
    streams_per_connection: int = 100
    """Concurrent streams on one connection. An agent has one; a proxy may combine those of several agents."""
    streams_per_node: int = 3
    """Concurrent streams of one node. The newest is current; the others are being closed."""
    pause: float = 5.0
    """Average seconds between two streams of one node."""
    beginnings: int = 5
    """Streams of one node that may start in a burst."""
    reports: float = 10.0
    """Average reports of one node per second; excess reports are read later."""
    burst: int = 10
    """Reports that may arrive in a burst."""
    report_bytes: int = 64 << 10
    """Bytes of a message, which are buffered before the stream is authenticated."""
    address_bytes: int = Bounds().address
    address_rate: int = Bounds().rate
    """What one address may send before its clients are admitted."""

    def for_metrics(self, metrics: int) -> "AgentLimits":
        """Return these limits, with `report_bytes` raised if a report with `metrics` readings needs it."""
        needed = _REPORT_HEAD + _READING_BYTES * metrics
        return replace(self, report_bytes=max(self.report_bytes, needed))

    def bounds(self, connections: int) -> Bounds:
        """Return the bounds of a port with at most `connections` connections, before their clients are admitted."""
        return Bounds(
            connections,
            _CERTIFICATES + self.report_bytes,
            self.address_bytes,
            self.address_rate,
            self.introduction,
        )

    def channel_options(self, connections: int) -> list[tuple[str, int]]:
        """Return the channel options of a gRPC server with at most `connections` connections."""
        return [
            # gRPC's default bounds reject a burst of thousands of connections, as after a restart of the evaluator.
            ("grpc.server.max_pending_requests", self.streams),
            ("grpc.server.max_pending_requests_hard_limit", 2 * self.streams),
            ("grpc.max_allowed_incoming_connections", connections),
            ("grpc.max_concurrent_streams", self.streams_per_connection),
            ("grpc.max_receive_message_length", self.report_bytes),
            ("grpc.max_metadata_size", _LARGEST_METADATA),
            ("grpc.absolute_max_metadata_size", _LARGEST_METADATA),
            ("grpc.server_handshake_timeout_ms", _ms(self.handshake)),
            ("grpc.max_connection_idle_ms", _ms(self.introduction)),
            # Streams end earlier by themselves; this closes connections of clients that do not read.
            ("grpc.max_connection_age_ms", _ms(self.age * _BACKSTOP)),
            ("grpc.max_connection_age_grace_ms", _ms(min(_GRACE, self.age))),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.http2.max_ping_strikes", 2),
            # Reports every few seconds do not measure bandwidth, but each would cause a ping.
            ("grpc.http2.bdp_probe", 0),
            # By default each connection has a buffer for a whole TLS record of 16 KiB.
            ("grpc.tsi.max_frame_size", 1024),
            ("grpc.http2.hpack_table_size.encoder", 0),
            ("grpc.http2.hpack_table_size.decoder", 0),
        ]


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _raise_limit(requested: int) -> int:
    """Raise the soft limit to `requested` or the hard limit; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    allowed = requested if hard == unlimited else min(requested, hard)
    if soft != unlimited and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    return requested if soft == unlimited else soft


def share_of_descriptors(requested: int, *, reserved: int) -> int:
    """Return how many of `requested` connections one port may hold so that `reserved` descriptors stay for everything else.

    Processes start with a soft limit of 1,024. Raises the soft limit as far as needed and permitted. If it is too low for both, the port gets half.
    """
    needed = requested * _DESCRIPTORS + reserved
    allowed = _raise_limit(needed)
    if allowed >= needed:
        return requested
    connections = min(requested, max(allowed - reserved, allowed // 2) // _DESCRIPTORS)
    log.warning(
        "fewer open files allowed than connections may need",
        allowed=allowed,
        needed=needed,
        connections=connections,
    )
    return connections
