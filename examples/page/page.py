"""Pages of the example: a list of objects, and one of them."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import UNSET

from evaluator.core.page_fields import Entries, Fields, Maybe
from evaluator.core.pages.section import SHOWN, PageError, PageView, Report, Section
from evaluator.core.pages.window import ShownWindow, Window


class ExampleObject(Fields):
    """An object of the example."""

    state: str


class ExamplePage(Fields, kw_only=True):
    """/example.json, and the page of one object."""

    window: Maybe[ShownWindow] = UNSET
    objects: Entries[dict[str, ExampleObject]] = UNSET


class ExampleReports:
    """Builds the reports. `objects`: by namespace/name."""

    def __init__(self, objects: Mapping[str, ExampleObject]) -> None:
        self._objects = objects

    async def listed(self, window: Window) -> Report:
        """Report on the objects of a page of the list."""
        seen = [name for name in self._objects if window.covers(name.partition("/")[0])]
        matching = sorted(name for name in seen if window.search in name)
        entries = [(name, self._objects[name]) for name in window.shown(matching)]
        shown = window.described(len(matching), len(seen))
        return Report(ExamplePage(window=shown), objects={"objects": entries})

    async def explained(self, name: str) -> Report:
        """Report on one object; on all without a name. Raises PageError."""
        if not name:
            return Report(ExamplePage(), objects={"objects": self._objects.items()})
        if name not in self._objects:
            raise PageError(f"no example {name[:SHOWN]}")
        return Report(ExamplePage(), objects={"objects": [(name, self._objects[name])]})

    def listed_page(self, window: Window) -> PageView:
        """Return the page of the list."""
        return PageView("example.html", "Example", partial(self.listed, window))

    def object_page(self, name: str, _window: Window) -> PageView:
        """Return the page of an object."""
        return PageView("example.html", "Example", partial(self.explained, name), name)


def section(objects: Mapping[str, ExampleObject]) -> Section:
    """Return the pages. Below /explain, `?example=<namespace>/<name>` selects an object."""
    reports = ExampleReports(objects)
    return Section(
        name="example",
        title="Example",
        shown=True,
        templates=Path(__file__).parent / "templates",
        listed=reports.listed_page,
        one=reports.object_page,
        query="example",
        explained=reports.explained,
        see={"example": "/explain?example=<namespace>/<name>"},
    )
