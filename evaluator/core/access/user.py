"""The user of a request (authentication.k8s.io/v1 UserInfo) and what it asks for (authorization.k8s.io/v1 SubjectAccessReview)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluator.core.model.api_status import ReviewedUser

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
MASTERS = "system:masters"


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
