"""Reading a request's body: its format, its size, and what is wrong with it."""

import json
from typing import Any

import yaml
from aiohttp import web

from sandbox.apiserver.errors import bad_request, too_large, unsupported_media_type
from sandbox.apiserver.http import protobuf
from sandbox.apiserver.writes.writes import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

LIMIT = 3 * 1024 * 1024
OBJECTS = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_YAML = frozenset({"application/yaml", APPLY_PATCH})


class _Loader(yaml.SafeLoader):
    """YAML as JSON has it: a date stays the text it is."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def media_type(request: web.Request, allowed: tuple[str, ...]) -> str:
    """The format of a body; 415 if it is none of those allowed."""
    if "Content-Type" not in request.headers and "application/json" in allowed:
        return "application/json"
    if request.content_type not in allowed:
        raise unsupported_media_type(allowed)
    return request.content_type


async def read(request: web.Request, form: str) -> Any:
    """The value in a body; 400 if it cannot be parsed, 413 past the cap."""
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
    """The value in a text; JSON first, since most YAML that clients send is JSON, which parses faster."""
    try:
        return json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        if not is_yaml:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    try:
        # SafeLoader with one type fewer; then to JSON and back, for which every key is a text and no number is NaN.
        loaded = yaml.load(raw, Loader=_Loader)  # noqa: S506
        return json.loads(json.dumps(loaded, allow_nan=False))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")
