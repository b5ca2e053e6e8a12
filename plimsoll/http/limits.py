"""What one client may take of a server, and all of them together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    handshake: float = 5.0
    """For a TLS handshake."""
    header: float = 5.0
    """From the first byte of a request to the end of its header; a new connection has to begin its first one in it."""
    body: float = 30.0
    """For a request's whole body."""
    idle: float = 120.0
    """Between two requests on one connection. Go's clients keep one for 90 s, and do not repeat a POST that met a close."""
    send: float = 30.0
    """For a reply to be taken."""
    linger: float = 2.0
    """For a client's half of the end: of TLS, and of a body that is refused while it is on its way."""
    header_bytes: int = 16 << 10
    body_bytes: int = 128 << 20
    bodies_bytes: int = 256 << 20
    """Of all requests at a time, while they are received and answered."""
    connections: int = 256
    """At once. With TLS each holds 256 KiB."""
    sending: int = 64
    """Answers at a time that their clients have not taken yet. For one more, the one that has waited longest is given up."""


class Budget:
    """Bytes that may be held at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = size

    def take(self, size: int) -> bool:
        """Whether so many more may be held; if so, they are."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        """So many are held no longer."""
        self.left += size
