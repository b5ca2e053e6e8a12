"""Flags of the port on which kube-scheduler asks: who may, and how much of this program one client may take."""

from dataclasses import dataclass

from plimsoll import flags, sizes
from plimsoll.flags import option
from plimsoll.http.limits import Limits

_DEFAULT = Limits()


@dataclass(frozen=True, kw_only=True)
class ExtenderOptions:
    """The scheduler's port. Times are in seconds, sizes in bytes."""

    port: int = option(
        "port", 9001, "port on which kube-scheduler is answered", metavar="PORT", parse=flags.port
    )
    cert: str = option(
        "cert", "/etc/kubernetes/pki/ca.crt", "server certificate of that port", metavar="FILE"
    )
    key: str = option("key", "/etc/kubernetes/pki/ca.key", "its private key", metavar="FILE")
    cacert: str = option(
        "cacert",
        "/etc/kubernetes/pki/ca.crt",
        "the CA that must have signed the scheduler's client certificate",
        metavar="FILE",
    )
    client_names: tuple[str, ...] = option(
        "clientNames",
        (),
        "the names (CN or DNS) of which a client's certificate must have one, `system:kube-scheduler` say; repeatable, or "
        "with commas between them. Without any, every certificate of that CA will do, as for Telemetry Aware Scheduling",
        metavar="NAME",
        parse=flags.names,
    )
    unsafe: bool = option(
        "unsafe", False, "answer kube-scheduler over plain HTTP, to anybody who can reach the port"
    )
    handshake_timeout: float = option(
        "handshakeTimeout",
        _DEFAULT.handshake,
        "how long a client's TLS handshake may take",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    header_timeout: float = option(
        "headerTimeout",
        _DEFAULT.header,
        "how long the header of a request may take",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    body_timeout: float = option(
        "bodyTimeout",
        _DEFAULT.body,
        "how long the body of a request may take",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    send_timeout: float = option(
        "sendTimeout",
        _DEFAULT.send,
        "how long a client may take to read an answer",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    idle_timeout: float = option(
        "idleTimeout",
        _DEFAULT.idle,
        "how long a connection may be silent between two requests; kube-scheduler keeps one for 90s",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    max_header_bytes: int = option(
        "maxHeaderBytes",
        _DEFAULT.header_bytes,
        "the largest header of a request",
        metavar="SIZE",
        parse=sizes.size,
    )
    max_body_bytes: int = option(
        "maxBodyBytes",
        _DEFAULT.body_bytes,
        "the largest body of a request; 5,000 whole nodes are some 60MiB",
        metavar="SIZE",
        parse=sizes.size,
    )
    max_bodies_bytes: int = option(
        "maxBodiesBytes",
        _DEFAULT.bodies_bytes,
        "the largest bodies of all requests at a time together; one more is told to come again (503)",
        metavar="SIZE",
        parse=sizes.size,
    )
    max_connections: int = option(
        "maxConnections",
        _DEFAULT.connections,
        "connections at a time; for a new one, the one that has been silent longest is closed",
        metavar="N",
        parse=flags.count,
    )

    @property
    def limits(self) -> Limits:
        """What one client may take."""
        return Limits(
            handshake=self.handshake_timeout,
            header=self.header_timeout,
            body=self.body_timeout,
            idle=self.idle_timeout,
            send=self.send_timeout,
            header_bytes=self.max_header_bytes,
            body_bytes=self.max_body_bytes,
            bodies_bytes=self.max_bodies_bytes,
            connections=self.max_connections,
        )

    @property
    def allowed_clients(self) -> frozenset[str]:
        """The names of `clientNames`; empty for any."""
        return frozenset(name for given in self.client_names for name in given.split(","))

    def extender_mistakes(self) -> list[str]:
        """What is wrong with these settings together, each in a sentence."""
        found = []
        if self.client_names and self.unsafe:
            found.append(
                "--clientNames and --unsafe contradict each other: plain HTTP has no certificates"
            )
        if self.max_body_bytes > self.max_bodies_bytes:
            found.append(
                "--maxBodyBytes is more than --maxBodiesBytes, so no such body would ever be taken"
            )
        return found
