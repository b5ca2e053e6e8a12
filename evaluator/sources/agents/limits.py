"""What one agent may take of its port, and all of them together; and how gRPC is told so."""

from dataclasses import dataclass, replace

_BACKSTOP = 1.25
_GRACE = 30.0
_LARGEST_METADATA = 16 << 10
_REPORT_HEAD, _READING_BYTES = 512, 13
"""What a report takes: its node's name and the rest, and for each reading a position of up to 5 bytes and a double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Times in seconds, sizes in bytes."""

    handshake: float = 20.0
    """For TLS and HTTP/2 to stand, from the connection's first moment. gRPC shakes hands with all who come at the same time:
    when thousands return at once, each waits for most of the others, and who is cut off only comes again."""
    introduction: float = 30.0
    """For the first Report of a stream to come. A connection without a stream may last as long."""
    age: float = 3600.0
    """Of a stream: then it has to begin anew, so that certificates and tokens are looked at again."""
    streams: int = 10_000
    """At once, of all agents; and as many connections."""
    streams_per_connection: int = 100
    """At once. An agent has one; a proxy in between may put those of several on one connection."""
    streams_per_node: int = 3
    """At once. One counts; the others are those that it replaced, while they come to their end."""
    pause: float = 5.0
    """Between two streams of one node, in the long run."""
    beginnings: int = 5
    """Streams of one node that may begin with no pause."""
    reports: float = 10.0
    """Of one node in a second, in the long run; what comes faster is read later."""
    burst: int = 10
    """Reports that may come with no pause."""
    report_bytes: int = 64 << 10
    """So much of each stream may lie in memory before it is known whose it is."""

    def for_metrics(self, metrics: int) -> "AgentLimits":
        """These limits, with `report_bytes` raised if a report of so many readings needs it."""
        needed = _REPORT_HEAD + _READING_BYTES * metrics
        return replace(self, report_bytes=max(self.report_bytes, needed))

    def channel_options(self, connections: int) -> list[tuple[str, int]]:
        """For a gRPC server that holds at most so many connections."""
        return [
            # A burst of thousands of connects (every agent after a restart of ours) is refused by gRPC's default bounds.
            ("grpc.server.max_pending_requests", self.streams),
            ("grpc.server.max_pending_requests_hard_limit", 2 * self.streams),
            ("grpc.max_allowed_incoming_connections", connections),
            ("grpc.max_concurrent_streams", self.streams_per_connection),
            ("grpc.max_receive_message_length", self.report_bytes),
            ("grpc.max_metadata_size", _LARGEST_METADATA),
            ("grpc.absolute_max_metadata_size", _LARGEST_METADATA),
            ("grpc.server_handshake_timeout_ms", _ms(self.handshake)),
            ("grpc.max_connection_idle_ms", _ms(self.introduction)),
            # Streams end by themselves earlier; who does not read its own one's end is cut off by this.
            ("grpc.max_connection_age_ms", _ms(self.age * _BACKSTOP)),
            ("grpc.max_connection_age_grace_ms", _ms(min(_GRACE, self.age))),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.http2.max_ping_strikes", 2),
            # A report every few seconds tells nothing of the network's bandwidth, but would be followed by a ping each.
            ("grpc.http2.bdp_probe", 0),
            # By default each connection holds a buffer for a whole TLS record of 16 KiB.
            ("grpc.tsi.max_frame_size", 1024),
            ("grpc.http2.hpack_table_size.encoder", 0),
            ("grpc.http2.hpack_table_size.decoder", 0),
        ]


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
