"""Builds an SSL context and client checks from the TLS section of the web configuration."""

import ipaddress
import os
import ssl
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent.web.config import TlsConfig, WebConfigError
from plimsoll.http.tls import Certificate, Tls, server_context

T = TypeVar("T")

# Go's names of cipher suites to OpenSSL's. Those of TLS 1.3 cannot be configured, as in Go.
_CIPHERS: Mapping[str, str] = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
_CURVES: Mapping[str, str] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
_VERSIONS: Mapping[str, ssl.TLSVersion] = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Mapping[str, ssl.VerifyMode] = {
    "": ssl.CERT_NONE,
    "NoClientCert": ssl.CERT_NONE,
    "RequestClientCert": ssl.CERT_NONE,  # Go requests a certificate but does not verify it
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
# Python's ssl cannot request a certificate without verifying it. Accepting any instead would silently weaken it.
_UNVERIFIED = {"RequireAnyClientCert", "RequireClientCert"}


def build(config: TlsConfig) -> Tls:
    """Build TLS settings from a configuration and its files. Raises WebConfigError if OpenSSL rejects them."""
    context = server_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TLS 1.0, only if configured
        context.minimum_version = _of(_VERSIONS, config.min_version, "min_version")
        context.maximum_version = _of(_VERSIONS, config.max_version, "max_version")
    ciphers = [_of(_CIPHERS, name, "cipher_suites") for name in config.cipher_suites]
    if any(ciphers):
        context.set_ciphers(":".join(filter(None, ciphers)))
    if not config.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    curves = [_of(_CURVES, name, "curve_preferences") for name in config.curve_preferences]
    if (
        len(curves) == 1
    ):  # Python's ssl accepts one curve; with several, OpenSSL's default stays, which includes all of them
        context.set_ecdh_curve(curves[0])
    _load_certificate(context, config)
    _load_clients(context, config)
    allowed = frozenset(config.client_allowed_sans)
    return Tls(context, partial(_reject_reason, allowed)) if allowed else Tls(context)


def _load_certificate(context: ssl.SSLContext, config: TlsConfig) -> None:
    chain = config.cert.encode() or _content("cert_file", config.cert_file)
    key = config.key.encode() or _content("key_file", config.key_file)
    with _as_file(key + b"\n" + chain) as path:
        try:
            context.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise WebConfigError(
                f"tls_server_config: certificate and key cannot be loaded: {_reason(error)}"
            ) from error


def _load_clients(context: ssl.SSLContext, config: TlsConfig) -> None:
    if config.client_auth_type in _UNVERIFIED:
        raise WebConfigError(
            f"tls_server_config: {config.client_auth_type} is not supported, since it accepts any certificate; "
            "use RequireAndVerifyClientCert"
        )
    context.verify_mode = _of(_CLIENT_AUTH, config.client_auth_type, "client_auth_type")
    if context.verify_mode is ssl.CERT_NONE:
        return
    authority = config.client_ca.encode() or (
        _content("client_ca_file", config.client_ca_file) if config.client_ca_file else b""
    )
    if not authority:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    try:
        context.load_verify_locations(cadata=authority.decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise WebConfigError(
            f"tls_server_config: client CA cannot be loaded: {_reason(error)}"
        ) from error


def _of(table: Mapping[str, T], name: str, what: str) -> T:
    if name not in table:
        known = ", ".join(filter(None, table))
        raise WebConfigError(f"tls_server_config: {what}: {name!r} is not one of {known}")
    return table[name]


def _content(what: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise WebConfigError(f"tls_server_config: {what} {path}: {error.strerror}") from error


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path with this content for OpenSSL functions that only read files; nothing is written to disk."""
    descriptor = os.memfd_create("certificate")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/dev/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _no_password() -> str:
    """Raise for an encrypted key; without this callback OpenSSL would prompt on the terminal."""
    raise ValueError("the key is encrypted")


def _reason(error: Exception) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else "") or str(error)


def _reject_reason(allowed: frozenset[str], certificate: Certificate | None) -> str:
    if not certificate or not allowed.isdisjoint(_names(certificate)):
        return ""
    return "the client certificate's name is not allowed"


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "IP Address":
            yield str(ipaddress.ip_address(value))
        elif kind in {"DNS", "URI", "email"}:
            yield value
