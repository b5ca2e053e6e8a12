"""TLS of the agents' port, in gRPC's terms."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from evaluator.core.tls import CertificateReloader, TlsError, load_pair


@dataclass(frozen=True, slots=True)
class Files:
    """The server's certificate and key, and the CA of client certificates (empty: clients need none)."""

    cert: str
    key: str
    ca: str = ""


class Certificates:
    """The current certificates. If changed files are invalid, the previous ones stay in use."""

    def __init__(
        self, files: Files, *, on_change: Callable[[bool], None] = lambda _usable: None
    ) -> None:
        """Load the files. Raises TlsError."""
        self._files = files
        self._rotation = CertificateReloader(
            [name for name in (files.cert, files.key, files.ca) if name],
            lambda: _load(files),
            port="agents",
            on_change=on_change,
        )
        self._initial = self._served = self._rotation.current()

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials: TLS 1.2 or newer; with a CA, client certificates signed by it are required."""
        return grpc.dynamic_ssl_server_credentials(
            self._initial,
            self._changed,  # type: ignore[arg-type]  # None: as before
            require_client_authentication=bool(self._files.ca),
        )

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the configuration if it changed, else None; called by gRPC's thread for each new connection."""
        newest = self._rotation.current()
        if newest is self._served:
            return None
        self._served = newest
        return newest


def _load(files: Files) -> grpc.ServerCertificateConfiguration:
    """Load the files. Raises TlsError if OpenSSL rejects them: gRPC would accept them and fail with each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        load_pair(context, files.cert, files.key)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"agents' port: certificate {files.cert} with key {files.key} cannot be used: {error}; "
            "name others with --agentCert and --agentKey, or pass --agentUnsafe to disable authentication"
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
