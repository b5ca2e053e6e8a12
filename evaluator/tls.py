"""The extender port's TLS: a certificate of ours and a client certificate from the scheduler, both read again when they change."""

import ssl
from collections.abc import Hashable
from pathlib import Path

from plimsoll import logs

log = logs.get(__name__)


class TlsError(Exception):
    """Certificates that cannot be used; the text names the file and says what to do."""


def server_context(cert: str, key: str, cacert: str) -> ssl.SSLContext:
    """Mutual TLS, 1.2 or newer: only clients with a certificate that `cacert` signed. Raises TlsError.

    The files are looked at with each connection that begins, so that a renewal needs no restart. Those that cannot be used
    later leave the ones before in force.
    """
    rotation = _Rotation(cert, key, cacert)
    context = _load(cert, key, cacert)
    context.sni_callback = rotation.pick
    return context


class _Rotation:
    """The newest usable context."""

    def __init__(self, cert: str, key: str, cacert: str) -> None:
        self._files = (cert, key, cacert)
        self._seen = self._fingerprint()
        self._newest: ssl.SSLContext | None = None

    def pick(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        """Give a connection that begins what is in the files now. Called by OpenSSL, with or without a server name."""
        # Taken before reading: what changes meanwhile is looked at again with the next connection.
        seen = self._fingerprint()
        if seen != self._seen:
            self._seen = seen
            try:
                self._newest = _load(*self._files)
            except TlsError as error:
                log.warning("certificates stay as they were", error=str(error))
            else:
                log.info("certificates read again", cert=self._files[0])
        if self._newest is not None:
            connection.context = self._newest
        return None

    def _fingerprint(self) -> Hashable:
        return tuple(_stamp(name) for name in self._files)


def _stamp(name: str) -> Hashable:
    try:
        found = Path(name).stat()
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns


def _load(cert: str, key: str, cacert: str) -> ssl.SSLContext:
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
