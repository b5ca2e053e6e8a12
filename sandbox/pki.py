"""Certificates of clusters on this machine, made with the openssl command line: a CA and what it signs."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

_TIMEOUT = 60.0
"""Seconds."""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def available() -> bool:
    """Return whether openssl is on PATH."""
    return shutil.which("openssl") is not None


class KeyPair(NamedTuple):
    """Paths of a certificate and its key."""

    cert: Path
    key: Path


class CertificateAuthority:
    """A CA in a folder of your own; its certificate is `file`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.name = name
        self.file = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        folder.mkdir(parents=True, exist_ok=True)
        openssl(
            *("req", "-x509", *_KEY, "-days", "3650", "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # Python 3.13 requires it
            *("-keyout", str(self._key), "-out", str(self.file)),
        )

    def issue(self, name: str, *, san: str = "", days: int = 3650, usage: str = "") -> KeyPair:
        """Issue a certificate with this common name. `days`: validity from now; negative if it has expired."""
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        request = self.folder / f"{name}.csr"
        openssl(
            *("req", *_KEY, "-subj", f"/CN={name}"),
            *(("-addext", f"subjectAltName={san}") if san else ()),
            *(("-addext", f"extendedKeyUsage={usage}") if usage else ()),
            *("-keyout", str(key), "-out", str(request)),
        )
        openssl(
            *("x509", "-req", "-in", str(request), "-days", str(days)),
            *("-copy_extensions", "copyall"),
            *("-CA", str(self.file), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-out", str(cert)),
        )
        return KeyPair(cert, key)


def openssl(*argv: str) -> None:
    """Run openssl. Raises subprocess.CalledProcessError if it fails."""
    subprocess.run(("openssl", *argv), check=True, capture_output=True, timeout=_TIMEOUT)  # noqa: S603, S607
