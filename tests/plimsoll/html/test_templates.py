"""Templates: values are escaped, undefined ones are errors, links are relative."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

from plimsoll.html.templates import Templates, link, name, root_of, segment, state

PAGE = """{% extends "base.html" %}{% from "macros.html" import state, name, link, nav, age %}
{% block nav %}{{ nav(root, "nodes", "Nodes", true) }}{% endblock %}
{% block main %}<p title="{{ text }}">{{ name(text) }} {{ state("bad", text) }}</p>{{ link(root, "nodes/" ~ text|segment, text) }}
<p id="age">{{ age(seconds) }}</p>{% endblock %}"""


class Parsed(HTMLParser):
    """The elements, and the text, of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    folder = tmp_path_factory.mktemp("templates")
    (folder / "page.html").write_text(PAGE)
    return Templates(folder)


def drawn(templates: Templates, **values: object) -> Parsed:
    given = {"title": "A page", "root": "../", "text": "", "seconds": 1.0, **values}
    return Parsed(templates.text("page.html", given))


@given(
    text=st.text(max_size=60) | st.sampled_from(["<script>alert(1)</script>", "\"'><b x=", "&lt;"])
)
def test_no_value_changes_the_structure_of_a_page(templates: Templates, text: str) -> None:
    plain, hostile = drawn(templates), drawn(templates, text=text, title=text)
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    assert [list(attributes) for _, attributes in hostile.elements] == [
        list(attributes) for _, attributes in plain.elements
    ]


def test_marks_that_reorder_text_are_shown_as_escapes(templates: Templates) -> None:
    page = drawn(templates, text="a\u202eb\u0000\u200f")
    assert "a\\u202eb\\u0000\\u200f" in page.texts
    assert not any(mark in "".join(page.texts) for mark in "\u202e\u0000\u200f")


@given(name=st.text(min_size=1, max_size=40).filter(lambda name: name not in {".", ".."}))
def test_a_link_leads_back_to_its_name(name: str) -> None:
    target = urljoin("http://host/some/prefix/pods/a", f"{root_of('/pods/a')}nodes/{segment(name)}")
    assert target.startswith("http://host/some/prefix/nodes/")
    assert unquote(target.removeprefix("http://host/some/prefix/nodes/")) == name
    assert not target.endswith(".json")


@pytest.mark.parametrize(
    ("path", "root"), [("/", "./"), ("/nodes", "./"), ("/nodes/", "../"), ("/pods/a/b", "../../")]
)
def test_the_root_is_relative_to_the_path(path: str, root: str) -> None:
    assert root_of(path) == root


def test_a_missing_value_is_an_error(templates: Templates) -> None:
    with pytest.raises(UndefinedError, match="seconds"):
        templates.text("page.html", {"title": "A page", "root": "./", "text": "x"})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "never"),
        (0.25, "0.2 s"),
        (59.9, "59 s"),
        (600, "10 min"),
        (9000, "2 h"),
        (400000, "4 d"),
    ],
)
def test_durations_are_short(templates: Templates, seconds: float | None, text: str) -> None:
    assert text in drawn(templates, seconds=seconds).texts


async def test_loading_compiles_all_templates_once(templates: Templates) -> None:
    await templates.load()
    environment = templates.environment
    await templates.load()
    assert templates.environment is environment
    assert environment.cache is not None
    assert len(environment.cache) == len(environment.list_templates(extensions=["html"]))


def test_importing_the_package_does_not_import_jinja2() -> None:
    code = "import sys, plimsoll.html.templates, plimsoll.html.assets; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_template_switches_escaping_off() -> None:
    root = Path(__file__).parents[3]
    for package in ("agent", "evaluator", "plimsoll"):
        for path in (root / package).rglob("*.html"):
            text = path.read_text()
            assert "|safe" not in text.replace(" ", ""), path
            assert "autoescape" not in text, path
            assert "style=" not in text, f"{path}: the Content-Security-Policy forbids it"
            assert not re.search(r"<[^>]*\son\w+=", text), path


def test_text_that_equals_markup_is_escaped_before_and_after_it() -> None:
    """Results are remembered; a markup equals the text that it is made of."""
    for text in ("<b>first</b>", "<b>second</b>"):
        made = {}
        for value in (Markup(text), text) if "first" in text else (text, Markup(text)):
            made[type(value)] = (name(value), link("../", "nodes", value), state("bad", value))
        assert all(text in shown for shown in made[Markup])
        assert all("<b>" not in shown and "&lt;b&gt;" in shown for shown in made[str])
