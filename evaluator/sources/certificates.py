"""The agents' port's TLS: certificate files that are looked at with each connection, so that a rotation needs no restart."""

import ssl
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

import grpc

from evaluator.tls import TlsError
from plimsoll import logs

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Files:
    """A server's certificate and key, and the CA that must have signed a client's; without one, clients need none."""

    cert: str
    key: str
    ca: str = ""


class Certificates:
    """What is in the files, as gRPC wants it. Files that cannot be used later leave those before in force."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._seen = _fingerprint(files)
        self._initial = _load(files)

    def credentials(self) -> grpc.ServerCredentials:
        """TLS 1.2 or newer; with a CA, only clients with a certificate that it signed."""
        return grpc.dynamic_ssl_server_credentials(
            self._initial,
            self._changed,  # type: ignore[arg-type]  # None: as before
            require_client_authentication=bool(self._files.ca),
        )

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """What is new for a connection that begins; called by gRPC's own thread."""
        # Taken before reading: what changes meanwhile is looked at again with the next connection.
        seen = _fingerprint(self._files)
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            loaded = _load(self._files)
        except TlsError as error:
            log.warning("agents' certificates stay as they were", error=str(error))
            return None
        log.info("agents' certificates read again", cert=self._files.cert)
        return loaded


def _fingerprint(files: Files) -> Hashable:
    return tuple(_stamp(name) for name in (files.cert, files.key, files.ca) if name)


def _stamp(name: str) -> Hashable:
    try:
        found = Path(name).stat()
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns


def _load(files: Files) -> grpc.ServerCertificateConfiguration:
    """Raises TlsError for what OpenSSL cannot use: gRPC itself would take anything, and fail with each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password to try, OpenSSL would ask for one on the terminal, and wait.
        context.load_cert_chain(files.cert, files.key, password="")
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"agents' port: certificate {files.cert} with key {files.key} cannot be used: {error}; "
            "name others with --agentCert and --agentKey, or pass --agentUnsafe to take any node's word"
        ) from error
    try:
        if files.ca:
            context.load_verify_locations(files.ca)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"agents' port: client CA {files.ca} cannot be used: {error}; name another with --agentCacert"
        ) from error
    try:
        cert, key = Path(files.cert).read_bytes(), Path(files.key).read_bytes()
        ca = Path(files.ca).read_bytes() if files.ca else None
    except OSError as error:
        raise TlsError(f"agents' port: {error}") from error
    return grpc.ssl_server_certificate_configuration([(key, cert)], ca)
