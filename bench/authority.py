"""Makes client certificates for thousands of simulated nodes within a second: one CA, one shared key, one name each.

Uses libcrypto, which takes a tenth of a millisecond per certificate; OpenSSL's command line takes some milliseconds.
"""

import ctypes
import ctypes.util
import functools
import ssl
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KUBELET = "system:node:"
_SCHEDULER = "system:kube-scheduler"
_DAY = 24 * 3600
_ASN1_STRING = 0x1001  # MBSTRING_ASC

# Functions that return pointers; ctypes assumes int.
_GIVE_POINTERS = (
    "BIO_new",
    "BIO_new_mem_buf",
    "BIO_s_mem",
    "EVP_sha256",
    "PEM_read_bio_PrivateKey",
    "PEM_read_bio_X509",
    "X509_get_serialNumber",
    "X509_get_subject_name",
    "X509_getm_notAfter",
    "X509_getm_notBefore",
    "X509_gmtime_adj",
    "X509_new",
)


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA in a folder. It holds only a path, so that it can be passed to another process."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Authority":
        """Create a CA, a server certificate for 127.0.0.1, and the clients' key."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        # Python 3.13 requires a key usage of CAs, which both are by openssl's configuration.
        usage = ("-addext", "keyUsage=critical,digitalSignature,keyCertSign")
        made._request("ca", "-x509", "-days", "2", *usage, subject="/CN=bench-ca")
        made._request(
            *("server", "-x509", "-days", "2", "-CA", str(made.ca), "-CAkey", made.path("ca.key")),
            *(*usage, "-addext", "subjectAltName=IP:127.0.0.1"),
            subject="/CN=evaluator",
        )
        made._request("node", subject="/CN=node")
        return made

    def _request(self, name: str, *arguments: str, subject: str) -> None:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        out = ("-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.crt"))
        words = ["openssl", "req", *key, *out, "-subj", subject, *arguments]
        subprocess.run(words, check=True, capture_output=True, timeout=60)

    def path(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return str(self.folder / name)

    @property
    def ca(self) -> Path:
        """Return the path of the CA's certificate."""
        return self.folder / "ca.crt"

    def read(self, name: str) -> bytes:
        """Return the content of a file in the folder."""
        return (self.folder / name).read_bytes()

    def client(self, name: str) -> bytes:
        """Return a client certificate (PEM) with the common name `name`; its key is node.key."""
        return _signed(_crypto(), self._secrets(), name)

    def node(self, name: str) -> bytes:
        """Return the client certificate (PEM) of a node, named like a kubelet's."""
        return self.client(_KUBELET + name)

    def client_context(self) -> ssl.SSLContext:
        """Return kube-scheduler's context, as in Go: client certificate, TLS 1.3, HTTP/2 preferred."""
        cert = Path(self.path("scheduler.crt"))
        if not cert.exists():
            cert.write_bytes(self.client(_SCHEDULER))
        context = ssl.create_default_context(cafile=self.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(cert, self.path("node.key"))
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    def server_context(self) -> ssl.SSLContext:
        """Return the evaluator's context, which requires a client certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.path("server.crt"), self.path("server.key"))
        context.load_verify_locations(self.ca)
        return context

    def _secrets(self) -> "_Secrets":
        return _loaded(self.folder)


@dataclass(frozen=True, slots=True)
class _Secrets:
    """Pointers of libcrypto for signing, kept for the life of the process."""

    ca: int
    ca_key: int
    key: int


@functools.cache
def _crypto() -> Any:
    """Return libcrypto, as used by Python's ssl module."""
    found = ctypes.util.find_library("crypto")
    if found is None:
        raise SystemExit("OpenSSL's libcrypto is not on this machine")
    library = ctypes.CDLL(found)
    for name in _GIVE_POINTERS:
        getattr(library, name).restype = ctypes.c_void_p
    return _Library(library)


class _Library:
    """Passes integers as pointers and longs, since ctypes would pass 32-bit ints."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._library, name)

        def call(*arguments: Any) -> Any:
            return function(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))

        return call


@functools.cache
def _loaded(folder: Path) -> _Secrets:
    crypto, folder_of = _crypto(), Authority(folder)

    def load(reader: Callable[..., int | None], name: str) -> int:
        text = folder_of.read(name)
        found = reader(crypto.BIO_new_mem_buf(text, len(text)), None, None, None)
        assert found, f"{name} cannot be read"
        return found

    return _Secrets(
        ca=load(crypto.PEM_read_bio_X509, "ca.crt"),
        ca_key=load(crypto.PEM_read_bio_PrivateKey, "ca.key"),
        key=load(crypto.PEM_read_bio_PrivateKey, "node.key"),
    )


def _signed(crypto: Any, secrets: _Secrets, name: str) -> bytes:
    cert = crypto.X509_new()
    crypto.X509_set_version(cert, 2)
    crypto.ASN1_INTEGER_set(crypto.X509_get_serialNumber(cert), zlib.crc32(name.encode()) >> 1)
    crypto.X509_gmtime_adj(crypto.X509_getm_notBefore(cert), -_DAY)
    crypto.X509_gmtime_adj(crypto.X509_getm_notAfter(cert), _DAY)
    crypto.X509_set_pubkey(cert, secrets.key)
    subject, text = crypto.X509_get_subject_name(cert), name.encode()
    crypto.X509_NAME_add_entry_by_txt(subject, b"CN", _ASN1_STRING, text, len(text), -1, 0)
    # The CA's certificate is its own issuer.
    crypto.X509_set_issuer_name(cert, crypto.X509_get_subject_name(secrets.ca))
    assert crypto.X509_sign(cert, secrets.ca_key, crypto.EVP_sha256()) > 0
    memory = crypto.BIO_new(crypto.BIO_s_mem())
    crypto.PEM_write_bio_X509(memory, cert)
    buffer = ctypes.create_string_buffer(4096)
    size = crypto.BIO_read(memory, buffer, len(buffer))
    crypto.BIO_free(memory)
    crypto.X509_free(cert)
    return buffer.raw[:size]
