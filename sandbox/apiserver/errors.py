"""API errors as metav1.Status: reason, causes and HTTP code."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """An error of one field (metav1.StatusCause)."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """An error response with the fields of a metav1.Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        causes: Iterable[Cause] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.causes = tuple(causes)

    def status(self) -> dict[str, Any]:
        """Return the metav1.Status of the response."""
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
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details else {}),
            "code": self.code,
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """The resource, group and object name that an error concerns."""

    group: str
    plural: str
    name: str = ""
    kind: str = ""

    @property
    def qualified(self) -> str:
        """Return the resource with its group: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self) -> dict[str, Any]:
        """Return the details of a Status that name it."""
        named = {"name": self.name, "group": self.group, "kind": self.plural}
        return {key: value for key, value in named.items() if value}


def success(subject: Subject, *, uid: str = "", code: int = 0) -> dict[str, Any]:
    """Return the Status of a success without an object."""
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
    """Return a 400: the request is malformed."""
    return ApiError(400, "BadRequest", message)


def forbidden(subject: Subject, why: str) -> ApiError:
    """Return a 403."""
    message = f'{subject.qualified} "{subject.name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, details=subject.details())


def not_found(subject: Subject) -> ApiError:
    """Return a 404 for an object."""
    message = f'{subject.qualified} "{subject.name}" not found'
    return ApiError(404, "NotFound", message, details=subject.details())


def no_such_path() -> ApiError:
    """Return a 404 for a resource type."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> ApiError:
    """Return a 405: the resource does not support the verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def not_acceptable() -> ApiError:
    """Return a 406: the client accepts no supported format."""
    message = (
        "only the following media types are accepted: application/json, "
        "application/json;stream=watch, application/yaml"
    )
    return ApiError(406, "NotAcceptable", message)


def already_exists(subject: Subject) -> ApiError:
    """Return a 409 for a create of an existing object."""
    message = f'{subject.qualified} "{subject.name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=subject.details())


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(subject: Subject, why: str = STALE) -> ApiError:
    """Return a 409: a precondition of the write does not hold."""
    message = f'Operation cannot be fulfilled on {subject.qualified} "{subject.name}": {why}'
    return ApiError(409, "Conflict", message, details=subject.details())


def expired(message: str) -> ApiError:
    """Return a 410: the resourceVersion is too old; the client must list again."""
    return ApiError(410, "Expired", message)


def too_large(limit: int) -> ApiError:
    """Return a 413 for a request body over the limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unsupported_media_type(allowed: Sequence[str]) -> ApiError:
    """Return a 415: the verb does not accept the format of the body."""
    listed = ", ".join(allowed)
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def invalid(subject: Subject, causes: Sequence[Cause]) -> ApiError:
    """Return a 422 with all validation errors of an object."""
    listed = str(causes[0]) if len(causes) == 1 else f"[{', '.join(map(str, causes))}]"
    details = subject.details() | {"kind": subject.kind}
    message = f'{subject.kind}{"." + subject.group if subject.group else ""} "{subject.name}" is invalid: {listed}'
    return ApiError(422, "Invalid", message, details=details, causes=causes)


def too_many_requests(message: str, causes: Iterable[Cause] = ()) -> ApiError:
    """Return a 429."""
    return ApiError(429, "TooManyRequests", message, causes=causes)


def internal(message: str) -> ApiError:
    """Return a 500: a bug, or an error for which a real server returns 500."""
    causes = [{"message": message}]
    text = f"Internal error occurred: {message}"
    return ApiError(500, "InternalError", text, details={"causes": causes})


def too_new(wanted: int, current: int) -> ApiError:
    """Return a 504 for a resourceVersion above the current one."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    causes = [Cause("ResourceVersionTooLarge", "Too large resource version", "")]
    return ApiError(504, "Timeout", message, details={"retryAfterSeconds": 1}, causes=causes)


def required(field: str, why: str = "") -> Cause:
    """Return the cause for a missing required field."""
    return Cause("FieldValueRequired", f"Required value{': ' + why if why else ''}", field)


def invalid_value(field: str, value: Any, why: str) -> Cause:
    """Return the cause for an invalid value."""
    return Cause("FieldValueInvalid", f"Invalid value: {_quoted(value)}: {why}", field)


def wrong_type(field: str, value: Any, why: str) -> Cause:
    """Return the cause for a value of the wrong JSON type."""
    return Cause("FieldValueTypeInvalid", f"Invalid value: {_quoted(value)}: {why}", field)


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> Cause:
    """Return the cause for a value that is not in the allowed set."""
    listed = ", ".join(_quoted(item) for item in allowed)
    message = f"Unsupported value: {_quoted(value)}: supported values: {listed}"
    return Cause("FieldValueNotSupported", message, field)


def forbidden_field(field: str, why: str) -> Cause:
    """Return the cause for a field that must not be set or changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: Any) -> Cause:
    """Return the cause for a duplicate list item."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {_quoted(value)}", field)


def _quoted(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
