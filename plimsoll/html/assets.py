"""The stylesheet and the script that all pages share, each below a name with its hash."""

import functools
import hashlib
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from plimsoll.html import headers
from plimsoll.http.types import Response

FOLDER = "/assets/"
"""The path below which assets are served."""
_FILES = {"style": ("style.css", "text/css"), "script": ("page.js", "text/javascript")}


class Asset(NamedTuple):
    """A static file."""

    kind: str
    path: str
    """Relative to `/`, such as `assets/style.0123456789ab.css`."""
    body: bytes
    content_type: str


@functools.cache
def load() -> Mapping[str, Asset]:
    """Return the assets by the path of a request."""
    assets = {}
    for kind, (name, content_type) in _FILES.items():
        body = (Path(__file__).parent / "files" / name).read_bytes()
        stem, _, suffix = name.partition(".")
        path = f"{FOLDER}{stem}.{hashlib.sha256(body).hexdigest()[:12]}.{suffix}"
        assets[path] = Asset(kind, path.lstrip("/"), body, f"{content_type}; charset=utf-8")
    return assets


def answer(path: str) -> Response:
    """Return the asset of a request's path, or 404: after an upgrade the page has to be loaded again."""
    if (asset := load().get(path)) is None:
        text = b"no such file in this version: reload the page\n"
        return Response(HTTPStatus.NOT_FOUND, text, headers=headers.UNCACHED)
    return Response(HTTPStatus.OK, asset.body, asset.content_type, headers.ASSET)
