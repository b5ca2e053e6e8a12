"""The user of a request (authentication.k8s.io/v1 UserInfo) and what it asks for (authorization.k8s.io/v1 SubjectAccessReview).

The front proxy names the user in headers, as k8s.io/apiserver reads them (pkg/authentication/request/headerrequest). The API
server publishes their configuration in the ConfigMap kube-system/extension-apiserver-authentication.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import msgspec

from evaluator.core.model.api_status import ReviewedUser
from evaluator.core.model.names import UNREADABLE
from plimsoll.text import SentenceError

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
MASTERS = "system:masters"
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class User:
    """A user with its groups. `extra`: further attributes by key, each with its values."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def anonymous(self) -> bool:
        """Whether the API server did not authenticate this user."""
        return self.name == ANONYMOUS or UNAUTHENTICATED in self.groups

    @property
    def unrestricted(self) -> bool:
        """Whether the user may do everything, as members of system:masters."""
        return MASTERS in self.groups


def authenticated(
    name: str, uid: str, groups: tuple[str, ...], extra: tuple[tuple[str, tuple[str, ...]], ...]
) -> User:
    """Return an authenticated user: a member of system:authenticated, unless the groups already say otherwise."""
    known = name == ANONYMOUS or AUTHENTICATED in groups or UNAUTHENTICATED in groups
    return User(name, uid, groups if known else (*groups, AUTHENTICATED), extra)


def of_review(user: ReviewedUser) -> User:
    """Return the user of a successful TokenReview."""
    extra = tuple((key, tuple(values)) for key, values in (user.extra or {}).items())
    return authenticated(user.username, user.uid, tuple(user.groups or ()), extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAttributes:
    """A request for a resource of an API group. An empty namespace means cluster scope."""

    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    verb: str = "get"

    def __str__(self) -> str:
        """Return the request in the words of an API server's denial."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        scope = f"in the namespace {self.namespace!r}" if self.namespace else "at the cluster scope"
        return f'{self.verb} resource "{resource}" in API group "{self.group}" {scope}'


@dataclass(frozen=True, slots=True, kw_only=True)
class NonResourceAttributes:
    """A request for a path, as `nonResourceURLs` of a ClusterRole name it."""

    path: str
    verb: str = "get"

    def __str__(self) -> str:
        """Return the request in the words of an API server's denial."""
        return f'{self.verb} path "{self.path}"'


Attributes = ResourceAttributes | NonResourceAttributes


def review_spec(user: User, attributes: Attributes) -> dict[str, Any]:
    """Return the `spec` of the SubjectAccessReview that asks whether the user may do this."""
    spec: dict[str, Any] = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
    }
    resource = isinstance(attributes, ResourceAttributes)
    kind = "resourceAttributes" if resource else "nonResourceAttributes"
    spec[kind] = asdict(attributes)
    return _without_empty(spec)


def denial(user: User, attributes: Attributes, reason: str = "") -> str:
    """Return why a request is forbidden, as an API server words it. `reason`: the authorizer's."""
    return f'forbidden: User "{user.name}" cannot {attributes}' + (f": {reason}" if reason else "")


def _without_empty(value: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for key, inner in value.items():
        kept = _without_empty(inner) if isinstance(inner, dict) and key != "extra" else inner
        if kept:
            found[key] = kept
    return found


class InvalidTokenError(Exception):
    """A token that authenticates no client of this port; the message is logged and sent to the client."""


class UnreviewedError(Exception):
    """The API server could not be reached now; nothing is known about the token or the permission."""


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


def parse_request_header(data: Mapping[str, str]) -> RequestHeaderConfig | None:
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
