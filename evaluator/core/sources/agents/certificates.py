"""The certificates of the agents' port, and their reload."""

import ssl
from collections.abc import Callable
from pathlib import Path

from evaluator.core.sources.agents.calls import Pem
from evaluator.core.sources.agents.options import AgentOptions
from evaluator.core.tls import CertificateReloader, Files, OnLoad, TlsError, load_pair


def port_certificates(
    options: AgentOptions,
    default: Files,
    *,
    on_change: Callable[[bool], None] = lambda _usable: None,
    on_load: OnLoad = lambda _files: None,
) -> CertificateReloader[Pem]:
    """Return the certificates of the port. `default`: files for those without a flag. Raises TlsError.

    If the files change and are invalid, the previous ones stay in use. `on_change` receives the result of each reload.
    """
    # gRPC can only require client certificates, not request them; clients with tokens have none.
    wants_certificate = options.agent_identity == "certificate"
    return load_certificates(
        Files(
            options.agent_cert or default.cert,
            options.agent_key or default.key,
            (options.agent_cacert or default.cacert) if wants_certificate else None,
        ),
        on_change=on_change,
        on_load=on_load,
    )


def load_certificates(
    files: Files,
    *,
    on_change: Callable[[bool], None] = lambda _usable: None,
    on_load: OnLoad = lambda _files: None,
) -> CertificateReloader[Pem]:
    """Load the files. If they change and are invalid, the previous ones stay in use. Raises TlsError."""
    return CertificateReloader(
        _paths(files),
        lambda: _load(files),
        port="agents",
        on_change=on_change,
        on_load=on_load,
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
        if files.cacert:
            context.load_verify_locations(files.cacert)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(
            f"agents' port: client CA {files.cacert} cannot be used: {error}; name another with --agentCacert"
        ) from error
    try:
        return Pem(*(Path(name).read_bytes() for name in _paths(files)))
    except OSError as error:
        raise TlsError(f"agents' port: {error}") from error


def _paths(files: Files) -> list[str]:
    return [name for name in (files.cert, files.key, files.cacert) if name]
