"""What a request asks for, as SubjectAccessReview names it (authorization.k8s.io/v1)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluator.core.access.core.user import User


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
