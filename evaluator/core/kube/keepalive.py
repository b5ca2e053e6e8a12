"""TCP sockets on which the kernel detects a dead peer: its machine lost power, or a firewall dropped the connection's state.

A quiet watch reads nothing for minutes, so a read timeout cannot detect a dead peer; TCP keepalive probes do.
"""

import socket
import sys
from typing import Any

IDLE, INTERVAL, PROBES = 10, 5, 3
"""Seconds without data until the first probe and between probes, and the unanswered probes that end a connection."""
UNACKNOWLEDGED = 25_000
"""Milliseconds after which a connection ends if the peer does not acknowledge what was sent, such as a request."""


def open_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a new socket for an entry of `socket.getaddrinfo`; reads fail with ETIMEDOUT once its peer is gone."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED)
    return made
