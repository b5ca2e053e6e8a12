"""Certificates of the evaluator's ports: server TLS with client certificates of a configured CA, and reload of changed files.

Files are checked at each connection, those of the agents' port twice a second, so that a renewal needs no restart. Imports nothing of the evaluator.
"""

import ssl
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from plimsoll import logs
from plimsoll.http import tls as http_tls
from plimsoll.http.tls import Certificate, Tls

log = logs.get(__name__)

T = TypeVar("T")


OnLoad = Callable[[Sequence[str]], None]
"""Receives the files of a port that were loaded: certificate, key, and the client CA if there is one."""


class TlsError(Exception):
    """Unusable certificates; the text names the file and what to do."""


class CertificateReloader(Generic[T]):
    """The last usable result of loading some files.

    `port` names the port in logs. `other`: returns what else `load` depends on. `on_change` receives the result of each reload.
    """

    def __init__(
        self,
        files: Sequence[str],
        load: Callable[[], T],
        *,
        port: str,
        other: Callable[[], Hashable] = lambda: None,
        on_change: Callable[[bool], None] = lambda _usable: None,
        on_load: OnLoad = lambda _files: None,
    ) -> None:
        """Raises TlsError, as `load` does. `on_load` receives the files whenever they were loaded."""
        self._files = tuple(files)
        self._load = load
        self._port = port
        self._other = other
        self._on_change = on_change
        self._on_load = on_load
        self._seen = self._fingerprint()
        self._newest = load()
        on_load(self._files)

    def current(self) -> T:
        """The result for the current files, or the previous result if they are unusable."""
        # Taken before reading: a change during the read is found at the next connection.
        seen = self._fingerprint()
        if seen != self._seen:
            self._seen = seen
            self._reload()
        return self._newest

    def _reload(self) -> None:
        try:
            self._newest = self._load()
        except TlsError as error:
            log.warning(
                "certificates not reloaded, using the previous ones",
                port=self._port,
                error=str(error),
            )
            self._on_change(False)
        else:
            log.info("certificates reloaded", port=self._port, cert=self._files[0])
            self._on_load(self._files)
            self._on_change(True)

    def _fingerprint(self) -> Hashable:
        return self._other(), *(_stamp(name) for name in self._files)


def _stamp(name: str) -> Hashable:
    try:
        found = Path(name).stat()
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns


def load_pair(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Load a certificate with its key. Raises OSError or ssl.SSLError."""
    # Without a password, OpenSSL would prompt on the terminal.
    context.load_cert_chain(cert, key, password="")


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
    on_load: OnLoad = lambda _files: None,
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
        on_load=on_load,
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
