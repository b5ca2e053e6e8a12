"""Certificate files that are looked at with each connection, so that a renewal needs no restart."""

import ssl
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from plimsoll import logs

log = logs.get(__name__)

T = TypeVar("T")


class TlsError(Exception):
    """Certificates that cannot be used; the text names the file and says what to do."""


class CertificateReloader(Generic[T]):
    """What was made of some files when they last could be used.

    `port` is whose files they are. `on_change` is told after each change of them whether they can be used.
    """

    def __init__(
        self,
        files: Sequence[str],
        load: Callable[[], T],
        *,
        port: str,
        on_change: Callable[[bool], None] = lambda _usable: None,
    ) -> None:
        """Raises TlsError, as `load` does."""
        self._files = tuple(files)
        self._load = load
        self._port = port
        self._on_change = on_change
        self._seen = self._fingerprint()
        self._newest = load()

    def current(self) -> T:
        """What is in the files now; if that cannot be used, what was in them before."""
        # Taken before reading: what changes meanwhile is looked at again with the next connection.
        seen = self._fingerprint()
        if seen != self._seen:
            self._seen = seen
            self._reload()
        return self._newest

    def _reload(self) -> None:
        try:
            self._newest = self._load()
        except TlsError as error:
            log.warning("certificates stay as they were", port=self._port, error=str(error))
            self._on_change(False)
        else:
            log.info("certificates read again", port=self._port, cert=self._files[0])
            self._on_change(True)

    def _fingerprint(self) -> Hashable:
        return tuple(_stamp(name) for name in self._files)


def _stamp(name: str) -> Hashable:
    try:
        found = Path(name).stat()
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns


def load_pair(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Load a certificate with its key. Raises OSError or ssl.SSLError."""
    # Without a password to try, OpenSSL would ask for one on the terminal, and wait.
    context.load_cert_chain(cert, key, password="")
