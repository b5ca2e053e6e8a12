"""The front proxy's configuration and its headers, as k8s.io/apiserver reads them (pkg/authentication/request/headerrequest).

The API server publishes the configuration in the ConfigMap kube-system/extension-apiserver-authentication.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from evaluator.core.access.user import User, authenticated
from plimsoll.decode import UNREADABLE
from plimsoll.text import SentenceError

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class RequestHeaderError(SentenceError):
    """An unusable key of the ConfigMap, or headers that name no user."""


class Headers(Protocol):
    """The headers of a request; names are in lower case."""

    @property
    def headers(self) -> Iterable[str]:
        """Return the names."""
        ...

    def values(self, name: str) -> Sequence[str]:
        """Return the values of one header, in order; each character is one byte."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaderConfig:
    """Which client certificate belongs to the front proxy, and in which headers it names the user.

    `client_ca`: certificates in PEM. `allowed_names`: common names; empty allows all. Header names are in lower case.
    """

    client_ca: str
    allowed_names: tuple[str, ...] = ()
    username: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    def allows(self, common_name: str) -> bool:
        """Return whether a certificate of the CA with this common name is the front proxy's."""
        return not self.allowed_names or common_name in self.allowed_names

    def user(self, request: Headers) -> User | None:
        """Return the user that the headers name; None if they name none. Raises RequestHeaderError if they are not UTF-8."""
        name = _first(request, self.username)
        if not name:
            return None
        groups = (value for header in self.group for value in _values(request, header) if value)
        return authenticated(
            name, _first(request, self.uid), tuple(groups), tuple(self._extra(request).items())
        )

    def _extra(self, request: Headers) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for prefix in self.extra_prefixes:
            for header in sorted(request.headers):
                if header.startswith(prefix):
                    key = _unescaped(header.removeprefix(prefix))
                    found[key] = (*found.get(key, ()), *_values(request, header))
        return found


def parse(data: Mapping[str, str]) -> RequestHeaderConfig | None:
    """Return the configuration in a ConfigMap's data; None if the API server has no front proxy. Raises RequestHeaderError."""
    client_ca = data.get("requestheader-client-ca-file", "")
    if not client_ca:
        return None
    return RequestHeaderConfig(
        client_ca=client_ca,
        allowed_names=_strings(data, "requestheader-allowed-names"),
        username=_lower(_strings(data, "requestheader-username-headers")),
        uid=_lower(_strings(data, "requestheader-uid-headers")),
        group=_lower(_strings(data, "requestheader-group-headers")),
        extra_prefixes=_lower(_strings(data, "requestheader-extra-headers-prefix")),
    )


def _strings(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = data.get(key, "")
    if not text:
        return ()
    try:
        return tuple(msgspec.json.decode(text, type=list[str]))
    except UNREADABLE as error:
        raise RequestHeaderError(f"{key} is not a JSON array of strings: {error}") from error


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _unescaped(key: str) -> str:
    """Return a %-encoded key decoded; unchanged if an escape is malformed."""
    if "%" in _ESCAPE.sub(b"", key.encode()).decode():
        return key
    return _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), key.encode()).decode(
        errors="replace"
    )


def _first(request: Headers, names: tuple[str, ...]) -> str:
    for name in names:
        if (values := _values(request, name)) and values[0]:
            return values[0]
    return ""


def _values(request: Headers, name: str) -> tuple[str, ...]:
    try:
        return tuple(value.encode("latin-1").decode() for value in request.values(name))
    except UnicodeError as error:
        raise RequestHeaderError(f"the header {name} is not UTF-8") from error
