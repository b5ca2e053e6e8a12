"""Hosts that clients on loopback may ask for: a web page must not reach a server there by DNS rebinding.

A browser sends the name of the page's site, even if that resolves to 127.0.0.1. Requests without the header (HTTP/1.0) do
not come from browsers.
"""

import ipaddress
from collections.abc import Container
from http import HTTPStatus
from urllib.parse import urlsplit

from plimsoll.http.types import Handler, Refuse, RejectedRequestError, Request, Response
from plimsoll.text import shown


def is_loopback(host: str) -> bool:
    """Return whether a Host header (`name`, `name:port`, `[address]:port`) is localhost or a loopback address."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def without_rebinding(handler: Handler, refuse: Refuse, *, open_paths: Container[str]) -> Handler:
    """Return a handler that answers clients at loopback addresses for localhost and IP addresses only, others by 421.

    Such clients are on this machine or, in a pod, behind `kubectl port-forward`. Addresses are no names that DNS could bind
    anew, and sidecars send those of their pod. Clients elsewhere may use any name, as may all for the open paths.
    """

    async def answer(request: Request) -> Response:
        host = request.headers.get("host")
        if host is None or request.path in open_paths or not _from_loopback(request):
            return await handler(request)
        if is_loopback(host) or _is_address(host):
            return await handler(request)
        reason = f"clients on loopback are answered for localhost and IP addresses only, not for the Host {shown(host)}"
        refused = RejectedRequestError(HTTPStatus.MISDIRECTED_REQUEST, reason)
        return refuse(refused, request)

    return answer


def _from_loopback(request: Request) -> bool:
    try:
        peer = ipaddress.ip_address(request.peer.address)
    except ValueError:
        return False
    mapped = peer.ipv4_mapped if isinstance(peer, ipaddress.IPv6Address) else None
    return (mapped or peer).is_loopback


def _is_address(host: str) -> bool:
    try:
        return not ipaddress.ip_address(urlsplit(f"//{host}").hostname or "").is_unspecified
    except ValueError:
        return False
