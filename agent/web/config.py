"""The web configuration file of Prometheus exporters (--web.config.file): TLS, users, headers, in YAML.

As strict as exporter-toolkit: unknown and repeated fields are errors.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypeVar

from plimsoll import durations
from plimsoll.text import SentenceError, shown

S = TypeVar("S")

_HASH = re.compile(r"\$2[aby]?\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}", re.ASCII)
_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
# The headers that may be set, with their allowed values if these are restricted.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
    "Content-Security-Policy": (),
}

_DIGITS = 18
"""Digits of an integer: as many as fit into Go's int64."""


class WebConfigError(SentenceError):
    """The file cannot be used; the message is for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """`tls_server_config`. Inline values and file names exclude each other."""

    cert: str = ""
    key: str = ""
    client_ca: str = ""
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    client_auth_type: str = ""
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names."""
        return tuple(filter(None, (self.cert_file, self.key_file, self.client_ca_file)))

    @property
    def verifies_clients(self) -> bool:
        """Whether clients need a certificate signed by the CA."""
        return self.client_auth_type == "RequireAndVerifyClientCert"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """`http_server_config`."""

    http2: bool = True
    """Accepted without effect: only HTTP/1.1 is served."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """`rate_limit`: `burst` requests at once, and one more every `interval`; no limit without an interval."""

    interval: str = "0"
    burst: int = 0

    @property
    def seconds(self) -> float:
        """The interval in seconds."""
        return durations.duration(self.interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig:
    """The whole file. Without `tls`, plain HTTP is served; without `users`, no password is required."""

    tls: TlsConfig | None = None
    http: HttpConfig = HttpConfig()
    users: Mapping[str, str] = field(default_factory=dict)
    """bcrypt hash by name."""
    rate_limit: RateLimit = RateLimit()


def parse(text: str, directory: PurePath) -> WebConfig:
    """Parse the file's text; `directory` resolves relative paths. Raises WebConfigError for anything the format does not define."""
    top = _mapping(_load(text), "the file")
    known = {"tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"}
    if unknown := sorted(top.keys() - known):
        raise WebConfigError(f"unknown field {unknown[0]}")
    limit = _section(RateLimit, top, "rate_limit")
    http = _section(HttpConfig, top, "http_server_config")
    users = _strings(top.get("basic_auth_users", ""), "basic_auth_users")
    _check_limit(limit)
    _check_headers(http.headers)
    for name, hashed in users.items():
        if _HASH.fullmatch(hashed) is None:
            raise WebConfigError(f"basic_auth_users: the password of {name} is not a bcrypt hash")
    return WebConfig(tls=_tls(top, directory), http=http, users=users, rate_limit=limit)


def _tls(top: Mapping[str, Any], directory: PurePath) -> TlsConfig | None:
    tls = _section(TlsConfig, top, "tls_server_config")
    if not (tls.files or tls.cert or tls.key or tls.client_auth_type):
        return None
    for inline, named, what in (
        (tls.cert, tls.cert_file, "cert"),
        (tls.key, tls.key_file, "key"),
    ):
        if not inline and not named:
            raise WebConfigError(f"tls_server_config: one of {what} and {what}_file is missing")
        if inline and named:
            raise WebConfigError(f"tls_server_config: {what} and {what}_file exclude each other")
    if tls.client_ca and tls.client_ca_file:
        raise WebConfigError("tls_server_config: client_ca and client_ca_file exclude each other")
    if (tls.client_ca or tls.client_ca_file) and tls.client_auth_type in {"", "NoClientCert"}:
        raise WebConfigError("tls_server_config: a client CA needs client_auth_type")
    return dataclasses.replace(
        tls,
        cert_file=_path(directory, tls.cert_file),
        key_file=_path(directory, tls.key_file),
        client_ca_file=_path(directory, tls.client_ca_file),
    )


def _path(directory: PurePath, name: str) -> str:
    return str(directory / name) if name else ""


def _check_limit(limit: RateLimit) -> None:
    try:
        _ = limit.seconds
    except ValueError as error:
        raise WebConfigError(f"rate_limit: {error}") from error


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if name not in _HEADERS:
            raise WebConfigError(f"http_server_config: header {name} cannot be set")
        if _HEADERS[name] and value not in _HEADERS[name]:
            allowed = " or ".join(_HEADERS[name])
            raise WebConfigError(f"http_server_config: {name} is {value!r}, not {allowed}")
        if not value.isprintable() or not value.isascii():
            raise WebConfigError(
                f"http_server_config: {name} has a value with characters that headers cannot contain"
            )


def _load(text: str) -> Any:
    from plimsoll import strictyaml  # 4 MB that an agent without such a file saves

    try:
        return strictyaml.load(text)
    except strictyaml.MalformedError as error:
        raise WebConfigError(f"not YAML: {error}") from error


def _section(kind: type[S], top: Mapping[str, Any], name: str) -> S:
    """Return a section as a dataclass of settings; scalars in the file are text."""
    given = _mapping(top.get(name, ""), name)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # S is a dataclass
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in fields:
            raise WebConfigError(f"{name}: unknown field {key}")
        values[key] = _convert(fields[key].type, value, f"{name}: {key}")
    return kind(**values)


def _convert(kind: Any, value: Any, where: str) -> Any:
    if kind == tuple[str, ...]:
        return _list(value, where)
    if kind == Mapping[str, str]:
        return _strings(value, where)
    if not isinstance(value, str):
        raise WebConfigError(f"{where}: expected a single value")
    if kind is bool and value in _BOOLEANS:
        return _BOOLEANS[value]
    if kind is int and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
        return int(value)
    if kind is not str:
        raise WebConfigError(f"{where}: {shown(value)} is no {kind.__name__}")
    return value


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if value in ("", None):
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise WebConfigError(f"{where}: expected fields with values")
    return value


def _strings(value: Any, where: str) -> Mapping[str, str]:
    strings = _mapping(value, where)
    if not all(isinstance(item, str) for item in strings.values()):
        raise WebConfigError(f"{where}: expected names with single values")
    return strings


def _list(value: Any, where: str) -> tuple[str, ...]:
    if value == "":
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WebConfigError(f"{where}: expected a list")
    return tuple(value)
