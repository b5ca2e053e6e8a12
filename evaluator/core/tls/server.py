"""Server TLS for the ports that Kubernetes calls, with client certificates of a configured CA."""

import ssl
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from evaluator.core.tls.reload import CertificateReloader, TlsError, load_pair
from plimsoll.http import tls as http_tls
from plimsoll.http.tls import Certificate, Tls


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of the certificate, its key and the client CA; None if clients need no certificate."""

    cert: str
    key: str
    cacert: str | None


@dataclass(frozen=True, slots=True)
class Port:
    """A port in messages: name in logs and metrics, flag of the client CA, and a hint for running without TLS."""

    name: str
    cacert: str
    hint: str


EXTENDER = Port("extender", "--cacert", "or pass --unsafe to answer over plain HTTP")


def rotation(
    files: Files,
    *,
    port: Port = EXTENDER,
    names: Collection[str] = (),
    client_ca: Callable[[], str] = lambda: "",
    on_change: Callable[[bool], None] = lambda _usable: None,
) -> CertificateReloader[Tls]:
    """TLS 1.2 or newer. If a CA is given, clients need its certificate; if names are given, for one of them.

    `client_ca`: returns a CA in PEM, which may change; clients may present one of its certificates. Raises TlsError.
    """
    reject_reason = partial(_reject_reason, frozenset(names))
    return CertificateReloader(
        [name for name in (files.cert, files.key, files.cacert) if name is not None],
        lambda: Tls(server_context(files, port, client_ca()), reject_reason),
        port=port.name,
        other=client_ca,
        on_change=on_change,
    )


def server_context(files: Files, port: Port = EXTENDER, client_ca: str = "") -> ssl.SSLContext:
    """An SSL context from the files. `client_ca`: a CA in PEM of optional client certificates. Raises TlsError."""
    context = http_tls.server_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load_pair(context, files.cert, files.key)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"--cert {files.cert} with --key {files.key} cannot be used: {error}; {port.hint}"
        ) from error
    if client_ca:
        # Only this CA: a verified certificate then has no other issuer.
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(cadata=client_ca)
        except (ValueError, ssl.SSLError) as error:
            raise TlsError(
                f"the CA of clients of port {port.name} cannot be used: {error}"
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
    shown = ", ".join(sorted(names)) or "no name"
    return f"the client certificate is for {shown[:300]}, which --clientNames does not allow"


def _names(certificate: Certificate) -> frozenset[str]:
    """The common names and DNS names of a certificate."""
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    common = {value for kind, value in subject if kind == "commonName"}
    dns = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    return frozenset(common | dns)
