"""TLS contexts of both ends of the extender port, with certificates of the benchmark's CA."""

import ssl
from pathlib import Path

from bench.authority import Authority

SCHEDULER = "system:kube-scheduler"


def client_context(authority: Authority) -> ssl.SSLContext:
    """Return kube-scheduler's context, as in Go: client certificate, TLS 1.3, HTTP/2 preferred."""
    cert = Path(authority.path("scheduler.crt"))
    if not cert.exists():
        cert.write_bytes(authority.client(SCHEDULER))
    context = ssl.create_default_context(cafile=authority.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(cert, authority.path("node.key"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def server_context(authority: Authority) -> ssl.SSLContext:
    """Return the evaluator's context, which requires a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(authority.path("server.crt"), authority.path("server.key"))
    context.load_verify_locations(authority.ca)
    return context
