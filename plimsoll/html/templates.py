"""Jinja2 templates of one program: every value is escaped, and an undefined one is an error."""

import asyncio
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from plimsoll import rfc3339
from plimsoll.html import assets
from plimsoll.quantity import readable
from plimsoll.text import printable

if TYPE_CHECKING:
    from jinja2 import Environment

_SHARED = Path(__file__).parent / "files"
_JSON = ".json"
_SWITCH_INTERVAL = 0.0005
"""Seconds."""


class Templates:
    """The templates `*.html` of some folders, and those that all programs share: `base.html` and `macros.html`.

    `filters`: further filters by name; `functions`: further functions, which return markup.

    Templates of a program extend `base.html`, which needs `title` and `root`, the relative link to `/`.
    """

    def __init__(
        self,
        *folders: Path,
        filters: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        functions: Mapping[str, Callable[..., str]] = MappingProxyType({}),
    ) -> None:
        self._folders = folders
        self._filters = filters
        self._functions = {**_FUNCTIONS, **functions}
        self._environment: Environment | None = None

    async def load(self) -> None:
        """Import Jinja2 and compile all templates, in a thread: both take some 100 ms, once."""
        if self._environment is None:
            await asyncio.to_thread(self._compile)

    def pieces(self, name: str, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield a page in pieces of some bytes, drawn while they are taken. Raises jinja2.UndefinedError."""
        return self.environment.get_template(name).generate(values)

    def text(self, name: str, values: Mapping[str, Any]) -> str:
        """Return a small page. Raises jinja2.UndefinedError."""
        return "".join(self.pieces(name, values))

    @property
    def environment(self) -> "Environment":
        """The environment with the shared functions and filters."""
        if self._environment is None:
            self._environment = self._made()
        return self._environment

    def _made(self) -> "Environment":
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        made = Environment(
            loader=FileSystemLoader([*self._folders, _SHARED]),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=visible,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.filters.update(self._filters)
        made.filters["segment"] = segment
        made.filters["query"] = query
        made.filters["readable"] = _readable
        made.filters["clock"] = clock
        made.globals.update(self._functions)
        made.globals["assets"] = {asset.kind: asset.path for asset in assets.load().values()}
        return made

    def _compile(self) -> None:
        """Compile in a thread that yields often: the event loop waits 4 ms for a turn, p90 10 ms; by default 9 and 20 ms."""
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            made = self._made()
            for name in made.list_templates(extensions=["html"]):
                made.get_template(name)
        finally:
            sys.setswitchinterval(usual)
        self._environment = made


def visible(value: Any) -> Any:
    """Return text with control characters, right-to-left marks and other invisible characters as \\u escapes.

    Other values, and markup that a template made, are returned as they are.
    """
    return printable(value) if type(value) is str else value


def _readable(value: float | str, metric: str, target: float | None = None) -> str:
    """Return a reading with its unit; text, such as NaN, as it is."""
    return readable(metric, value, target)


def segment(name: str) -> str:
    """Return a name as one segment of a path. A dot before a last `json` is encoded: the suffix means the page as JSON."""
    quoted = quote(name, safe="")
    return f"{quoted.removesuffix(_JSON)}%2Ejson" if quoted.endswith(_JSON) else quoted


def query(values: Mapping[str, Any]) -> str:
    """Return a link to the same page with these query parameters; empty ones are left out."""
    return f"?{urlencode({name: value for name, value in values.items() if value})}"


def clock(at: str) -> str:
    """Return a time in RFC 3339 as people write it, to the second: `2026-11-20 09:15:04 UTC`. Other texts stay as they are."""
    moment = rfc3339.parse_or_none(at)
    return at if moment is None else rfc3339.seconds(moment)[:-1].replace("T", " ") + " UTC"


# Pages call these thousands of times with few values: as macros, they would take ten times as long.
# Markup equals the text that it is made of: `typed` keeps both apart.
_remembered = lru_cache(maxsize=4096, typed=True)


def _text(value: Any) -> Markup:
    return escape(visible(value))


def _markup(*parts: str) -> Markup:
    """Return literal parts, and those made by `_text`, as markup."""
    return Markup("".join(parts))  # noqa: S704 (the callers below escape)


@_remembered
def state(kind: str, word: Any) -> Markup:
    """Return a state: the word says it; the stylesheet adds a shape and a colour for its kind: good, warn, bad, off."""
    return _markup('<span class="state ', _text(kind), '">', _text(word), "</span>")


@_remembered
def name(text: Any) -> Markup:
    """Return a name that others chose: isolated, so that its writing direction does not reorder what stands beside it."""
    return _markup('<bdi class="name">', _text(text), "</bdi>")


@_remembered
def link(root: str, href: str, text: Any) -> Markup:
    """Return a link inside the pages; `href` is relative to `/`."""
    return _markup('<a href="', _text(root), _text(href), '">', name(text), "</a>")


def moment(at: str) -> Markup:
    """Return a time in RFC 3339 as UTC; the script shows it in the reader's time zone, with UTC in the title."""
    return _markup('<time datetime="', _text(at), '">', _text(clock(at)), "</time>")


def labels(found: Mapping[str, str]) -> Markup:
    """Return labels as `key=value`, separated by commas."""
    return Markup(", ").join(map(_label, found, found.values()))


@_remembered
def _label(key: str, value: str) -> Markup:
    return _markup("<code>", name(key), "=", name(value), "</code>")


def age(seconds: float | None) -> str:
    """Return a duration in seconds, short; `never` for None and for what is not finite."""
    if seconds is None or not math.isfinite(seconds):
        return "never"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for most, unit, length in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < most:
            return f"{int(seconds / length)} {unit}"
    return f"{int(seconds / 86_400)} d"


_FUNCTIONS: Mapping[str, Callable[..., str]] = {
    "html_state": state,
    "html_name": name,
    "html_link": link,
    "html_moment": moment,
    "html_age": age,
    "html_labels": labels,
}


def root_of(path: str) -> str:
    """Return the relative link from a request's path to `/`: `./` from `/nodes`, `../` from `/nodes/a`.

    Relative, so that pages work behind a proxy that serves them below a path of its own.
    """
    return "../" * (path.count("/") - 1) or "./"
