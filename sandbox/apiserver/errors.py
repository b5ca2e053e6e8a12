"""What an API server says when it says no: metav1.Status with its reason, causes and HTTP code."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.apiserver.storage.objects import Json


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with one field."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """A refusal, as the client will read it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        causes: Iterable[Cause] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.causes = tuple(causes)

    def status(self) -> Json:
        """The metav1.Status that goes over the wire."""
        details = dict(self.details)
        if self.causes:
            details["causes"] = [
                {"reason": cause.reason, "message": cause.message, "field": cause.field}
                for cause in self.causes
            ]
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": self.code,
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """What an error is about: a resource in its group, and the name of one object of it."""

    group: str
    plural: str
    name: str = ""
    kind: str = ""

    @property
    def qualified(self) -> str:
        """`pods`, or `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self) -> Json:
        """The part of a Status that names it."""
        named = {"name": self.name, "group": self.group, "kind": self.plural}
        return {key: value for key, value in named.items() if value}


def success(subject: Subject, *, uid: str = "", code: int = 0) -> Json:
    """The Status of something done that has no object to show."""
    details = subject.details() | ({"uid": uid} if uid else {})
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({"details": details} if details else {}),
        **({"code": code} if code else {}),
    }


def bad_request(message: str) -> ApiError:
    """The request cannot be understood."""
    return ApiError(400, "BadRequest", message)


def forbidden(subject: Subject, why: str) -> ApiError:
    """Understood, and refused."""
    message = f'{subject.qualified} "{subject.name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, details=subject.details())


def not_found(subject: Subject) -> ApiError:
    """No such object."""
    message = f'{subject.qualified} "{subject.name}" not found'
    return ApiError(404, "NotFound", message, details=subject.details())


def no_such_path() -> ApiError:
    """No such resource type."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> ApiError:
    """The resource exists and does not take this verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def not_acceptable() -> ApiError:
    """The client takes no format that we have."""
    message = (
        "only the following media types are accepted: application/json, "
        "application/json;stream=watch, application/yaml"
    )
    return ApiError(406, "NotAcceptable", message)


def already_exists(subject: Subject) -> ApiError:
    """A create of something that is there."""
    message = f'{subject.qualified} "{subject.name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=subject.details())


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(subject: Subject, why: str = STALE) -> ApiError:
    """A write that rests on something no longer true."""
    message = f'Operation cannot be fulfilled on {subject.qualified} "{subject.name}": {why}'
    return ApiError(409, "Conflict", message, details=subject.details())


def expired(message: str) -> ApiError:
    """The history that the client asks for is gone; it must list again."""
    return ApiError(410, "Expired", message)


def too_large(limit: int) -> ApiError:
    """A request body past the cap."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unsupported_media_type(allowed: Sequence[str]) -> ApiError:
    """A body in a format that this verb does not take."""
    listed = ", ".join(allowed)
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def invalid(subject: Subject, causes: Sequence[Cause]) -> ApiError:
    """An object that breaks the rules of its kind."""
    listed = str(causes[0]) if len(causes) == 1 else f"[{', '.join(map(str, causes))}]"
    details = subject.details() | {"kind": subject.kind}
    message = f'{subject.kind}{"." + subject.group if subject.group else ""} "{subject.name}" is invalid: {listed}'
    return ApiError(422, "Invalid", message, details=details, causes=causes)


def too_many_requests(message: str, causes: Iterable[Cause] = ()) -> ApiError:
    """Not now; ask again later."""
    return ApiError(429, "TooManyRequests", message, causes=causes)


def internal(message: str) -> ApiError:
    """Our own fault, or one that a real server calls its own."""
    causes = [{"message": message}]
    text = f"Internal error occurred: {message}"
    return ApiError(500, "InternalError", text, details={"causes": causes})


def too_new(wanted: int, current: int) -> ApiError:
    """A resourceVersion from the future."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    causes = [Cause("ResourceVersionTooLarge", "Too large resource version", "")]
    return ApiError(504, "Timeout", message, details={"retryAfterSeconds": 1}, causes=causes)


def required(field: str, why: str = "") -> Cause:
    """A field that must be there."""
    return Cause("FieldValueRequired", f"Required value{': ' + why if why else ''}", field)


def invalid_value(field: str, value: Any, why: str) -> Cause:
    """A field whose value breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {_quoted(value)}: {why}", field)


def wrong_type(field: str, value: Any, why: str) -> Cause:
    """A field whose value has the wrong JSON type."""
    return Cause("FieldValueTypeInvalid", f"Invalid value: {_quoted(value)}: {why}", field)


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> Cause:
    """A field whose value is none of those allowed."""
    listed = ", ".join(_quoted(item) for item in allowed)
    message = f"Unsupported value: {_quoted(value)}: supported values: {listed}"
    return Cause("FieldValueNotSupported", message, field)


def forbidden_field(field: str, why: str) -> Cause:
    """A field that may not be set, or not be changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: Any) -> Cause:
    """A list item that is there twice."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {_quoted(value)}", field)


def _quoted(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
