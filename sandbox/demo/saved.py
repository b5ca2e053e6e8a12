"""Saves a page of the evaluator as one file that opens without a server."""

import os
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import aiohttp

from plimsoll.html import assets

_NAME = "demo.html"
_LIVE = ("data-refresh", "data-live")
"""Attributes that make the script ask the server again."""
_VOID = frozenset({"meta", "link", "input", "br"})


class _Saved(HTMLParser):
    """The HTML of a page with its stylesheet and script inside, without what needs the server: navigation, forms, links."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.pieces: list[str] = []
        self._dropped = 0
        """Open elements in and including one that is left out."""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element, replace it, or leave it out with all that it contains."""
        given = dict(attrs)
        if self._dropped or tag in {"nav", "form"} or given.get("class") == "filters":
            self._dropped += tag not in _VOID
            return
        own = next((a for a in assets.load().values() if a.path in _target(given)), None)
        if own is not None:
            self.pieces.append(_inside(own))
            self._dropped += tag not in _VOID
            return
        text = self.get_starttag_text() or ""
        for name, value in attrs:
            leads = name == "href" and tag == "a" and not (value or "").startswith("#")
            if leads or name in _LIVE:
                text = text.replace(f' {name}="{_written(text, name)}"', "", 1)
        self.pieces.append(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element without content."""
        if not self._dropped:
            self.pieces.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        if self._dropped:
            self._dropped -= 1
        else:
            self.pieces.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Keep text."""
        if not self._dropped:
            self.pieces.append(data)

    def handle_entityref(self, name: str) -> None:
        """Keep text."""
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        """Keep text."""
        self.handle_data(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        """Keep the document's type."""
        self.pieces.append(f"<!{decl}>")


def _target(attributes: dict[str, str | None]) -> str:
    return attributes.get("href") or attributes.get("src") or ""


def _inside(asset: assets.Asset) -> str:
    """Return an asset as an element; a script runs after what is before it."""
    tag = "style" if asset.kind == "style" else "script"
    deferred = ' type="module"' if tag == "script" else ""
    return f"<{tag}{deferred}>{asset.body.decode()}</{tag}>"


def _written(text: str, name: str) -> str:
    """Return the value of an attribute as the tag has it, with its escapes."""
    return text.partition(f' {name}="')[2].partition('"')[0]


def standalone(text: str) -> str:
    """Return the HTML of a page so that it needs no server: stylesheet and script inside, no links and forms."""
    return "".join(_Saved(text).pieces)


async def save(http: aiohttp.ClientSession, url: str, folder: str) -> Path:
    """Save a page in a folder, or without one as a temporary file that stays; return the file."""
    async with http.get(url, headers={"accept": "text/html"}) as response:
        response.raise_for_status()
        text = standalone(await response.text())
    if folder:
        file = Path(folder) / _NAME
    else:
        handle, name = tempfile.mkstemp(prefix="plimsoll-demo-", suffix=".html")
        os.close(handle)
        file = Path(name)
    file.write_text(text)
    return file
