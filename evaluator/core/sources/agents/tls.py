"""The certificate of the agents' port."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evaluator.core.sources.agents.calls import Pem
from evaluator.core.tls import CertificateReloader, TlsError, load_pair


@dataclass(frozen=True, slots=True)
class Files:
    """The server's certificate and key, and the CA of client certificates (empty: clients need none)."""

    cert: str
    key: str
    ca: str = ""


def certificates(
    files: Files, *, on_change: Callable[[bool], None] = lambda _usable: None
) -> CertificateReloader[Pem]:
    """Load the files. If they change and are invalid, the previous ones stay in use. Raises TlsError."""
    return CertificateReloader(
        [name for name in (files.cert, files.key, files.ca) if name],
        lambda: _load(files),
        port="agents",
        on_change=on_change,
    )


def _load(files: Files) -> Pem:
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
        return Pem(*(Path(n).read_bytes() if n else b"" for n in (files.cert, files.key, files.ca)))
    except OSError as error:
        raise TlsError(f"agents' port: {error}") from error
