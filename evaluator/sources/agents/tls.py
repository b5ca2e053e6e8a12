"""The agents' port's TLS, as gRPC wants it."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from evaluator.tls.reload import CertificateReloader, TlsError, load_pair


@dataclass(frozen=True, slots=True)
class Files:
    """A server's certificate and key, and the CA that must have signed a client's; without one, clients need none."""

    cert: str
    key: str
    ca: str = ""


class Certificates:
    """What is in the files. Files that cannot be used later leave those before in force."""

    def __init__(
        self, files: Files, *, on_change: Callable[[bool], None] = lambda _usable: None
    ) -> None:
        """Raises TlsError."""
        self._files = files
        self._rotation = CertificateReloader(
            [name for name in (files.cert, files.key, files.ca) if name],
            lambda: _load(files),
            port="agents",
            on_change=on_change,
        )
        self._initial = self._told = self._rotation.current()

    def credentials(self) -> grpc.ServerCredentials:
        """TLS 1.2 or newer; with a CA, only clients with a certificate that it signed."""
        return grpc.dynamic_ssl_server_credentials(
            self._initial,
            self._changed,  # type: ignore[arg-type]  # None: as before
            require_client_authentication=bool(self._files.ca),
        )

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """What is new for a connection that begins; called by gRPC's own thread."""
        newest = self._rotation.current()
        if newest is self._told:
            return None
        self._told = newest
        return newest


def _load(files: Files) -> grpc.ServerCertificateConfiguration:
    """Raises TlsError for what OpenSSL cannot use: gRPC itself would take anything, and fail with each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        load_pair(context, files.cert, files.key)
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
