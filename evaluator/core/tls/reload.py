"""Certificate files checked at each connection, so that a renewal needs no restart."""

import ssl
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from plimsoll import logs

log = logs.get(__name__)

T = TypeVar("T")


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
    ) -> None:
        """Raises TlsError, as `load` does."""
        self._files = tuple(files)
        self._load = load
        self._port = port
        self._other = other
        self._on_change = on_change
        self._seen = self._fingerprint()
        self._newest = load()

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
