"""Certificates for a benchmark: a CA of its own, a server on the loopback, kube-scheduler, and agents."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_DAYS = ("-days", "2")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """A CA in a folder. Needs openssl."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.cert = folder / "ca.crt"
        self._key = folder / "ca.key"
        self._ask(self._key, "/CN=bench-ca", "-x509", "-out", str(self.cert), *_DAYS)

    def issue(self, name: str, subject: str, *, san: str = "") -> Pair:
        """A certificate with this subject (`/CN=…`), and its key."""
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        request = self._folder / f"{name}.csr"
        extension = ("-addext", f"subjectAltName={san}") if san else ()
        self._ask(pair.key, subject, "-out", str(request), *extension)
        by = ("-CA", str(self.cert), "-CAkey", str(self._key), "-CAcreateserial")
        made = ("-in", str(request), "-out", str(pair.cert), "-copy_extensions", "copyall")
        _openssl("x509", "-req", *made, *by, *_DAYS)
        return pair

    def server(self) -> Pair:
        """Of a server on the loopback."""
        return self.issue("server", "/CN=plimsoll-evaluator", san="IP:127.0.0.1,DNS:localhost")

    def scheduler(self) -> Pair:
        """Of kube-scheduler."""
        return self.issue("scheduler", "/CN=system:kube-scheduler")

    def _ask(self, key: Path, subject: str, *arguments: str) -> None:
        _openssl("req", *_KEY, "-keyout", str(key), "-subj", subject, *arguments)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


def client_context(ca: Path, pair: Pair) -> ssl.SSLContext:
    """As Go's client has it: its own certificate shown, TLS 1.3, and HTTP/2 preferred where a server has it."""
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(pair.cert, pair.key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def server_context(ca: Path, pair: Pair) -> ssl.SSLContext:
    """As the evaluator has it: a client certificate is required."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pair.cert, pair.key)
    context.load_verify_locations(ca)
    return context
