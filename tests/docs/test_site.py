"""The site of the documentation (`make site`): each page is two clicks away, links lead somewhere, and search finds pages.

The build needs mkdocs, which `make site` installs into .site; without it only the links of the sources are tested.
"""

import asyncio
import functools
import http.server
import posixpath
import re
import subprocess
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from docs import site_pages
from tests import chromium

ROOT = Path(__file__).parents[2]
MKDOCS = ROOT / ".site" / "bin" / "mkdocs"
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))


def test_every_page_is_in_the_navigation_once():
    listed = [name for section in site_pages.navigation() for pages in section.values() for name in ([pages] if isinstance(pages, str) else pages)]  # fmt: skip
    assert sorted(name.removesuffix(".md") for name in listed if not name.startswith("source/")) == PAGES  # fmt: skip
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("page", "link", "rewritten"),
    [
        ("install.md", "[a](policies.md#rules)", "[a](policies.md#rules)"),
        ("install.md", "[a](../SECURITY.md#b)", "[a](source/SECURITY.md#b)"),
        ("install.md", "[`deploy`](../deploy/scheduler)", "`deploy`"),
        ("install.md", "[a](https://example.com/x.md)", "[a](https://example.com/x.md)"),
        ("install.md", "[a](#here)", "[a](#here)"),
        ("source/README.md", "![badge](https://example.com/x)", ""),
        ("install.md", "```\n[a](../README.md)\n```", "```\n[a](../README.md)\n```"),
        ("source/README.md", "![p](docs/images/node.png)", "![p](../images/node.png)"),
        ("source/deploy/chart/README.md", "[a](../../docs/flags.md)", "[a](../../../flags.md)"),
        ("source/SECURITY.md", "[a](docs/install.md#x)", "[a](../install.md#x)"),
    ],
)
def test_links_lead_where_the_site_has_the_file(page, link, rewritten):
    assert site_pages.rewritten(link, page) == rewritten


def test_the_version_of_the_site_is_selected_and_nothing_is_loaded_from_elsewhere():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert config["extra"]["version"] == {"provider": "mike"}
    assert config["theme"]["font"] is False


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.loaded = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        if tag in {"script", "img", "link"}:
            self.loaded |= {given.get("src") or given.get("href") or ""}
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not MKDOCS.exists():
        pytest.skip("mkdocs is not installed: make site")
    folder = tmp_path_factory.mktemp("site") / "0.1"  # beside it, mike lists the versions
    (folder.parent / "versions.json").write_text(
        '[{"version": "0.1", "title": "0.1", "aliases": []}]'
    )
    done = subprocess.run([MKDOCS, "build", "--quiet", "--site-dir", folder], cwd=ROOT, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    found = {str(path.relative_to(site)): Links(path.read_text()) for path in site.rglob("*.html")}
    del found["404.html"]
    return found


def targets(name, page):
    """The pages of the site, with anchors, to which a page links."""
    for link in page.links:
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            yield (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name,
                anchor,
            )


def test_every_page_is_reached_in_two_clicks(pages):
    first = {target for target, _ in targets("index.html", pages["index.html"])} & pages.keys()
    second = {target for name in first for target, _ in targets(name, pages[name])}
    outside = {name for name in pages if name.startswith(("source/deploy", "source/examples"))}
    assert pages.keys() - first - second - outside == set()


def test_every_link_and_anchor_exists(site, pages):
    broken = [
        (name, target, anchor)
        for name, page in pages.items()
        for target, anchor in targets(name, page)
        if not (site / target).exists()
        or (anchor and target in pages and anchor not in pages[target].ids)
    ]
    assert broken == []


def test_pages_load_nothing_from_other_sites(pages):
    assert not [
        one for page in pages.values() for one in page.loaded if re.match(r"https?:|//", one)
    ]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass


@pytest.mark.e2e
async def test_the_site_works_in_chromium_and_search_finds_a_page(site):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=site.parent)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/0.1"
    try:
        async with chromium.launched() as browser, chromium.tab(browser) as tab:
            for name in ("cookbook", "flags", "index"):
                await tab.show(f"{url}/{name}.html")
            await tab.page.keyboard.press("/")
            await tab.page.keyboard.type("memory pressure")
            found = tab.page.locator(".md-search-result__link", has_text="Cookbook")
            await found.first.wait_for()
            await tab.page.locator(".md-version__current", has_text="0.1").wait_for(
                state="attached"
            )
        assert tab.others(chromium.origin(url)) == []
        assert [
            error for error in tab.errors if "versions.json" not in error
        ] == []  # mike writes it
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
