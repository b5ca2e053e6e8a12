"""What a request for a page asks for: the resource that the page shows, and which part of it.

Handlers choose a page by its resource, and `--opsAuthorize` authorizes the same resource, so no parameter, suffix or
encoding shows another one than the permission is about.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote, urlencode

from evaluator.core.pages.part import Scope
from evaluator.core.pages.section import Section
from evaluator.core.pages.window import Window
from plimsoll.html.negotiation import prefers_json
from plimsoll.html.templates import root_of, segment
from plimsoll.http.types import Request, preference

EXPLAIN = "/explain"

_SECTIONS = ("policies", "nodes", "pods", "rules")
_NAMESPACED = ("policies", "pods")
_FILTERS = ("search", "state", "page")
_INTERVAL = ("since", "until")
_LONGEST_SEARCH = 253
_MOST_PAGES = 10**6
_ROOT_AS_JSON = "index"
_SUFFIX = ".json"


class Resource(NamedTuple):
    """A list (no names), the part of it in one namespace (the second name is empty), or one object. Names are decoded."""

    section: str
    names: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The one path of the resource, by which permissions name it."""
        return "/" + "/".join([self.section, *(quote(name, safe="") for name in self.names)])


class Targets:
    """The resources of the pages, and of the `sections` that other features add, which are lists of namespaced objects."""

    def __init__(self, sections: Sequence[Section] = ()) -> None:
        self._sections = (*_SECTIONS, *(section.name for section in sections))
        self._namespaced = frozenset((*_NAMESPACED, *(section.name for section in sections)))
        added = ((section.query, section.name) for section in sections)
        self._parameters = (("pod", "pods"), *added, ("node", "nodes"))
        self._filters = {section.name: tuple(section.parameters) for section in sections}

    def paths(self) -> list[str]:
        """Return the paths of pages for a browser, prefixes if they end with a slash."""
        below = [f"/{name}{end}" for name in self._sections for end in ("", "/", _SUFFIX)]
        return ["/", f"/{_ROOT_AS_JSON}{_SUFFIX}", *below]

    def resource_path(self, request: Request) -> str | None:
        """Return the one path of what a request shows; None for paths that are no page."""
        resource = self.resource_of(request)
        return resource.path if resource else None

    def resource_of(self, request: Request) -> Resource | None:
        """Return what a request shows; None for paths that are no page."""
        if request.path == EXPLAIN or request.path.startswith(f"{EXPLAIN}/"):
            return self.explained(request)
        path, _ = _without_suffix(request.path)
        section = path.removeprefix("/").partition("/")[0]
        return self.shown(request, path) if section in {"", *self._sections} else None

    def explained(self, request: Request) -> Resource:
        """Return what a request for /explain shows."""
        namespace, _, name = request.path.removeprefix(EXPLAIN).removeprefix("/").partition("/")
        if namespace or name:
            return Resource("policies", (unquote(namespace), unquote(name)))
        for parameter, section in self._parameters:
            if parameter in request.query:
                return Resource(section, self._names(section, _last(request, parameter)))
        if "metric" in request.query:
            return Resource("rules")
        return Resource("nodes" if "nodes" in request.query else "policies")

    def shown(self, request: Request, path: str) -> Resource:
        """Return what the page of a path shows; `?pod=` names a pod on lists of pods."""
        section, *encoded = path.removeprefix("/").split("/")
        names = tuple(unquote(name) for name in encoded)
        if section == "pods" and len(names) < 2 and (pod := _last(request, "pod")):
            return Resource(section, self._names(section, pod))
        if section in self._namespaced and len(names) == 1:
            names = (*names, "")
        return Resource(section or "policies", names)

    def namespace_of(self, resource: Resource) -> str:
        """Return the namespace whose part of a list a resource is; empty for other resources."""
        partial = resource.section in self._namespaced and resource.names[1:] == ("",)
        return resource.names[0] if partial else ""

    def scope_of(self, resource: Resource) -> Scope:
        """Return what a resource is about, which the same permission covers."""
        section, names = resource
        if section == "nodes" and len(names) == 1:
            return Scope(node=names[0])
        namespace = names[0] if names else ""
        if section in {"policies", "history"} and len(names) == 2 and names[1]:
            return Scope(namespace, "/".join(names))
        return Scope(namespace)

    def filters_of(self, resource: Resource) -> tuple[str, ...]:
        """Return the names of the query's parameters that select entries of a list."""
        return (*_FILTERS, *self._filters.get(resource.section, _INTERVAL))

    def _names(self, section: str, name: str) -> tuple[str, ...]:
        """Return the names in a parameter: <namespace>/<name> in sections with namespaces."""
        if section not in self._namespaced:
            return (name,)
        return tuple(name.split("/", 1)) if name else ()


class Target:
    """What a request for a page of a browser asks for; `path` is without the suffix of JSON."""

    def __init__(self, request: Request, targets: Targets) -> None:
        self.path, suffix = _without_suffix(request.path)
        self.wants_json = suffix or prefers_json(preference(request.headers, "accept"))
        self.wants_events = _wants_events(preference(request.headers, "accept"))
        self.seen = request.headers.get("last-event-id", _last(request, "live"))[:_LONGEST_SEARCH]
        """The position of the newest record that the page showed."""
        self.root = root_of(request.path)
        self.resource = targets.shown(request, self.path)
        self.namespace = targets.namespace_of(self.resource)
        self.scope = targets.scope_of(self.resource)
        self.window = Window(
            _last(request, "search")[:_LONGEST_SEARCH],
            _last(request, "state")[:20],
            _number(_last(request, "page")),
            namespace=self.namespace,
            given={
                name: _last(request, name)[:_LONGEST_SEARCH]
                for name in targets.filters_of(self.resource)
                if name in request.query and name not in _FILTERS
            },
        )
        self._given = {
            name: _last(request, name)
            for name in targets.filters_of(self.resource)
            if name in request.query
        }

    @property
    def key(self) -> Hashable:
        """What the page depends on: requests with the same one need the same permission, and get the same page."""
        return self.root, self.path, self.resource, tuple(sorted(self._given.items()))

    @property
    def as_json(self) -> str:
        """The link to the same page as JSON, relative to `/`."""
        section, names = self.resource
        if self.path == "/":
            section = _ROOT_AS_JSON
        if self.namespace:
            names = names[:1]
        link = "/".join(segment(name) for name in (section, *names))
        return f"{link}{_SUFFIX}" + (f"?{urlencode(self._given)}" if self._given else "")


def _wants_events(accept: str) -> bool:
    """Return whether a client wants events, as EventSource does."""
    return accept.partition(";")[0].strip().lower() == "text/event-stream"


def _without_suffix(path: str) -> tuple[str, bool]:
    """Return the path of a page without the suffix of JSON, and whether it had one."""
    path = path.rstrip("/") or "/"
    if not path.endswith(_SUFFIX):
        return path, False
    path = path.removesuffix(_SUFFIX)
    return ("/" if path == f"/{_ROOT_AS_JSON}" else path), True


def _last(request: Request, name: str) -> str:
    return request.query.get(name, ("",))[-1]


def _number(text: str) -> int:
    valid = text.isascii() and text.isdigit() and len(text) < len(str(_MOST_PAGES))
    return max(1, int(text)) if valid else 1
