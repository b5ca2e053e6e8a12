"""Parses addresses of flags, `:9100`, `127.0.0.1:9100`, `[::1]:9100`, `node-a:9100`, and opens listening sockets for them."""

import errno
import re
import socket
from dataclasses import dataclass

from plimsoll import flags

_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^\[\]:\s]*)):(?P<port>[^:]*)")


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port; an empty host means all addresses of this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the address in the syntax of flags."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse(text: str) -> Address:
    """Parse an address to listen on. Raises ValueError."""
    if text.startswith("vsock://"):
        raise ValueError(
            f"{text!r}: sockets of the family vsock are not supported, only TCP (:9100)"
        )
    if (match := _ADDRESS.fullmatch(text)) is None:
        raise ValueError(
            f"not an address: {text!r} (write it like :9100, 127.0.0.1:9100 or [::1]:9100)"
        )
    return Address(match["bracketed"] or match["plain"] or "", flags.port(match["port"]))


def parse_peer(text: str) -> str:
    """Parse an address to connect to; returns the text. Empty means none."""
    if not text:
        return text
    address = parse(text)
    if not address.host or not address.port:
        raise ValueError(
            f"not an address to connect to: {text!r} (write it like evaluator.plimsoll:9091)"
        )
    return str(address)


class ListenError(Exception):
    """Listening on an address failed; the message is for the operator."""


def bind(address: Address) -> socket.socket:
    try:
        if not address.host:
            return _bind_everywhere(address.port)
        family, _, _, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(where, family=family)
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error


def _bind_everywhere(port: int) -> socket.socket:
    """Return one socket for IPv4 and IPv6, so that port 0 is one port; IPv4 only if the kernel has no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                raise
    return socket.create_server(("0.0.0.0", port))  # noqa: S104 (the flag has no host)


def bound(address: Address, listener: socket.socket) -> Address:
    return Address(address.host, listener.getsockname()[1])
