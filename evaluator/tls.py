"""The extender port's TLS: a certificate of ours, and a client certificate from the scheduler, both checked at the start."""

import ssl


class TlsError(Exception):
    """Certificates that cannot be used; the text names the file and says what to do."""


def server_context(cert: str, key: str, cacert: str) -> ssl.SSLContext:
    """Mutual TLS, 1.2 or newer: only clients with a certificate that `cacert` signed. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    hint = "or pass --unsafe to answer over plain HTTP"
    try:
        # Without a password to try, OpenSSL would ask for one on the terminal, and wait.
        context.load_cert_chain(cert, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"--cert {cert} with --key {key} cannot be used: {error}; {hint}") from error
    try:
        context.load_verify_locations(cacert)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"--cacert {cacert} cannot be used: {error}; {hint}") from error
    return context
