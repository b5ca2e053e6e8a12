"""Decodes error responses of the API server: metav1.Status, or any other body a proxy sends."""

from dataclasses import dataclass
from typing import Any

import msgspec

from evaluator.core.model.names import UNREADABLE

_LONGEST = 3600.0
"""Seconds: longer Retry-After values are capped."""


@dataclass(frozen=True, slots=True)
class APIStatus:
    """An error response: its message, its causes, and the seconds of its Retry-After header."""

    message: str = ""
    causes: tuple[dict[str, Any], ...] = ()
    retry_after: float | None = None


class _Details(msgspec.Struct):
    causes: list[dict[str, Any]] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    details: _Details | None = None


def read(body: bytes, retry_after: str) -> APIStatus:
    """Return the APIStatus of an error response; a body that is not a Status yields only the header."""
    pause = _seconds(retry_after)
    try:
        status = msgspec.json.decode(body, type=_Status)
    except UNREADABLE:
        return APIStatus(retry_after=pause)
    causes = tuple((status.details and status.details.causes) or ())
    return APIStatus(status.message, causes, pause)


def _seconds(header: str) -> float | None:
    """Return the seconds of a Retry-After header; None if it is absent or a date, as some proxies send."""
    return min(float(header), _LONGEST) if header.isascii() and header.isdigit() else None


class ReviewedUser(msgspec.Struct):
    """authentication.k8s.io/v1 UserInfo."""

    username: str = ""
    extra: dict[str, list[str]] | None = None
    uid: str = ""
    groups: list[str] | None = None


class TokenReview(msgspec.Struct):
    """The status of an authentication.k8s.io/v1 TokenReview."""

    authenticated: bool = False
    user: ReviewedUser = msgspec.field(default_factory=ReviewedUser)
    audiences: list[str] | None = None
    error: str = ""


class AccessReview(msgspec.Struct, rename="camel"):
    """The status of an authorization.k8s.io/v1 SubjectAccessReview."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class TokenReviewed(msgspec.Struct):
    """A reviewed authentication.k8s.io/v1 TokenReview."""

    status: TokenReview = msgspec.field(default_factory=TokenReview)


class AccessReviewed(msgspec.Struct):
    """A reviewed authorization.k8s.io/v1 SubjectAccessReview."""

    status: AccessReview = msgspec.field(default_factory=AccessReview)
