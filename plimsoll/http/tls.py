"""TLS settings of new connections, and which clients are admitted."""

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Certificate = Mapping[str, Any]
"""A verified client certificate, as ssl.SSLSocket.getpeercert() shows it."""


def common_name(certificate: Certificate) -> str:
    """Return the common name of a certificate's subject; of several the last, as Go does. Empty if it has none."""
    names = [
        value
        for part in certificate.get("subject", ())
        for kind, value in part
        if kind == "commonName"
    ]
    return names[-1] if names else ""


def _admit_all(_certificate: Certificate | None) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Tls:
    """The context of new connections, and a check of a client's certificate, or of its absence.

    The check returns why the client is rejected; empty if it is admitted.
    """

    context: ssl.SSLContext
    reject_reason: Callable[[Certificate | None], str] = _admit_all

    def reject_reason_for(self, certificate: Certificate | None) -> str:
        """Return why this client is rejected; empty if it is admitted.

        A resumed TLS 1.2 session skips OpenSSL's check of the dates, so they are checked here for every connection.
        """
        if certificate and ssl.cert_time_to_seconds(certificate["notAfter"]) < time.time():
            return "the client certificate has expired"
        return self.reject_reason(certificate)


def server_context() -> ssl.SSLContext:
    """Return a context for HTTP/1.1 that issues no session tickets: each connection verifies its certificate anew.

    Python's ssl cannot turn off OpenSSL's cache of TLS 1.2 sessions; `Tls.reject_reason_for` covers these.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context
