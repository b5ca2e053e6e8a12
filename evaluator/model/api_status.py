"""What an API server says when it says no: a metav1.Status, or whatever a proxy in between made of it."""

from dataclasses import dataclass
from typing import Any

import msgspec

from evaluator.model.decode import UNREADABLE

_LONGEST = 3600.0
"""Seconds: who asks to be left alone for a year is asked again after an hour."""


@dataclass(frozen=True, slots=True)
class APIStatus:
    """Its words, the fields it is about, and the seconds for which it asks to be left alone."""

    message: str = ""
    causes: tuple[dict[str, Any], ...] = ()
    retry_after: float | None = None


class _Details(msgspec.Struct):
    causes: list[dict[str, Any]] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    details: _Details | None = None


def read(body: bytes, retry_after: str) -> APIStatus:
    """A refusal out of an answer's body and its Retry-After header; of what is no Status only the header counts."""
    pause = _seconds(retry_after)
    try:
        status = msgspec.json.decode(body, type=_Status)
    except UNREADABLE:
        return APIStatus(retry_after=pause)
    causes = tuple((status.details and status.details.causes) or ())
    return APIStatus(status.message, causes, pause)


def _seconds(header: str) -> float | None:
    """None where the header is not there, or is the date that some proxies send."""
    return min(float(header), _LONGEST) if header.isascii() and header.isdigit() else None


class ReviewedUser(msgspec.Struct):
    """authentication.k8s.io/v1 UserInfo."""

    username: str = ""
    extra: dict[str, list[str]] | None = None


class TokenReview(msgspec.Struct):
    """The status of an authentication.k8s.io/v1 TokenReview."""

    authenticated: bool = False
    user: ReviewedUser = msgspec.field(default_factory=ReviewedUser)
    audiences: list[str] | None = None
    error: str = ""
