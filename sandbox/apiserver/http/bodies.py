"""Reads and parses request bodies."""

import json
from typing import Any

from aiohttp import web

from plimsoll import strictyaml
from sandbox.apiserver.errors import bad_request, too_large, unsupported_media_type
from sandbox.apiserver.http import protobuf
from sandbox.apiserver.writes.writes import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

LIMIT = 3 * 1024 * 1024
OBJECTS = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_YAML = frozenset({"application/yaml", APPLY_PATCH})


def media_type(request: web.Request, allowed: tuple[str, ...]) -> str:
    """Return the media type of a body. Raises a 415 if it is not allowed."""
    if "Content-Type" not in request.headers and "application/json" in allowed:
        return "application/json"
    if request.content_type not in allowed:
        raise unsupported_media_type(allowed)
    return request.content_type


async def read(request: web.Request, form: str) -> Any:
    """Return the decoded body. Raises a 400 if it is malformed, a 413 if it is too large."""
    if (request.content_length or 0) > LIMIT:
        raise too_large(LIMIT)
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(LIMIT) from error
    if form == protobuf.MEDIA_TYPE:
        return protobuf.decode(raw)
    return parse(raw, is_yaml=form in _YAML)


def parse(raw: bytes, *, is_yaml: bool) -> Any:
    """Return the value of a text. YAML is tried as JSON first, which is faster and what most clients send."""
    try:
        return json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        if not is_yaml:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    try:
        return strictyaml.load_json(raw)
    except strictyaml.MalformedError as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not valid JSON")
