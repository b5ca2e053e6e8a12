"""TLS of the ports that Kubernetes calls: a certificate of ours, and clients whose certificate a CA of theirs signed."""

import ssl
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from evaluator.tls.reload import CertificateReloader, TlsError, load_pair
from plimsoll.http import tls as http_tls
from plimsoll.http.tls import Certificate, Tls


@dataclass(frozen=True, slots=True)
class Files:
    """A certificate, its key, and the CA that must have signed a client's; None where clients need none."""

    cert: str
    key: str
    cacert: str | None


@dataclass(frozen=True, slots=True)
class Port:
    """How a port is spoken of: in logs and metrics, by the flag of its clients' CA, and how to do without its TLS."""

    name: str
    cacert: str
    hint: str


EXTENDER = Port("extender", "--cacert", "or pass --unsafe to answer over plain HTTP")


def rotation(
    files: Files,
    *,
    port: Port = EXTENDER,
    names: Collection[str] = (),
    on_change: Callable[[bool], None] = lambda _usable: None,
) -> CertificateReloader[Tls]:
    """TLS 1.2 or newer: only clients with a certificate of the CA, if there is one, and if there are names, of one of them.

    Raises TlsError.
    """
    reject_reason = partial(_reject_reason, frozenset(names))
    return CertificateReloader(
        [name for name in (files.cert, files.key, files.cacert) if name is not None],
        lambda: Tls(server_context(files, port), reject_reason),
        port=port.name,
        on_change=on_change,
    )


def server_context(files: Files, port: Port = EXTENDER) -> ssl.SSLContext:
    """What is in the files. Raises TlsError."""
    context = http_tls.server_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load_pair(context, files.cert, files.key)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"--cert {files.cert} with --key {files.key} cannot be used: {error}; {port.hint}"
        ) from error
    if files.cacert is None:
        return context
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.cacert)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"{port.cacert} {files.cacert} cannot be used: {error}; {port.hint}"
        ) from error
    return context


def _reject_reason(allowed: frozenset[str], certificate: Certificate | None) -> str:
    names = _names(certificate or {})
    if not allowed or not allowed.isdisjoint(names):
        return ""
    told = ", ".join(sorted(names)) or "nobody"
    return f"the client certificate is for {told[:300]}, which --clientNames does not allow"


def _names(certificate: Certificate) -> frozenset[str]:
    """A certificate's common names and DNS names."""
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    common = {value for kind, value in subject if kind == "commonName"}
    dns = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    return frozenset(common | dns)
