"""Hooks of mkdocs for `make site`: the navigation, and pages outside of docs/ that others link to.

Links are as on a code host, relative to the file. On the site, Markdown files outside of docs/ are below `source/`; of a link to
anything else, such as a folder or a program, the text stays.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = {
    "Start": ("quickstart-kind", "install", "gitops", "kubectl-plugin", "pages"),
    "Policies": ("cookbook", "policies", "backtest", "observe-mode", "node-actions", "rules", "sources", "history", "peers", "ranking"),
    "Switch from": ("switching-from-tas", "switching-from-node-exporter", "node-problem-detector", "custom-metrics", "tas-compatibility", "gangs-comparison"),
    "Features": ("agent", "gangs", "scorers", "adding-a-scorer", "gpu"),
    "Operate": ("operations", "alerts", "troubleshooting", "upgrade", "uninstall", "performance"),
    "Reference": ("flags", "collectors", "metrics", "shipped-rules", "compatibility", "placement", "architecture", "walks", "security-tests", "decisions"),
}  # fmt: skip
"""Pages by section; others are listed below More."""
_SOURCE = "source/"
_LINK = re.compile(r"(?P<open>!?\[(?P<text>[^\]]*)\])\((?P<to>[^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def on_config(config: Any) -> Any:
    """Set the navigation."""
    config["nav"] = list(navigation())
    return config


def navigation() -> Iterator[dict[str, Any]]:
    """Yield the sections with those of their pages that exist; each page is two clicks from the first one."""
    yield {"Plimsoll": "index.md"}
    left = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    for title, names in SECTIONS.items():
        pages = [f"{name}.md" for name in names if name in left]
        left -= set(names)
        if title == "Reference":
            pages += [
                f"{_SOURCE}{name}" for name in ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
            ]
        yield {title: pages}
    if left:
        yield {"More": [f"{name}.md" for name in sorted(left)]}


def on_files(files: Any, config: Any) -> Any:
    """Add the linked Markdown files outside of docs/."""
    from mkdocs.structure.files import File

    for name in sorted(outside()):
        text = (ROOT / name).read_text()
        files.append(File.generated(config, f"{_SOURCE}{name}", content=text))
    return files


def outside() -> set[str]:
    """Return the Markdown files outside of docs/ that pages link to, directly or by others of them."""
    found = {"SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    todo = [*(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")), *found]
    while todo:
        name = todo.pop()
        for link in _LINK.finditer(_CODE.sub("", (ROOT / name).read_text())):
            target = _resolved(name, link["to"])
            if (
                target
                and target.endswith(".md")
                and not target.startswith("docs/")
                and target not in found
            ):
                found.add(target)
                todo.append(target)
    return found


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with links as the site has them."""
    return rewritten(markdown, page.file.src_uri)


def rewritten(markdown: str, uri: str) -> str:
    """Return Markdown of a page of the site with links as the site has them."""
    name = uri.removeprefix(_SOURCE) if uri.startswith(_SOURCE) else f"docs/{uri}"

    def replaced(link: re.Match[str]) -> str:
        target = _resolved(name, link["to"])
        if target is None and link["open"].startswith("!"):
            return ""  # a badge: the site loads nothing from elsewhere
        if target is None:
            return link[0]
        place = _place(target)
        if place is None:
            return link["text"]
        anchor = link["to"].partition("#")[2]
        relative = posixpath.relpath(place, posixpath.dirname(uri) or ".")
        return f"{link['open']}({relative}{'#' + anchor if anchor else ''})"

    blocks = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)
    return "".join(one if one.startswith("```") else _LINK.sub(replaced, one) for one in blocks)


def _resolved(name: str, link: str) -> str | None:
    """Return the path in the repository that a link of a file names; None for other sites and anchors of the page."""
    path = link.partition("#")[0]
    if not path or re.match(r"[a-z][a-z+.-]*:", link):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _place(target: str) -> str | None:
    """Return where the site has a file of the repository; None if it does not."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return f"{_SOURCE}{target}" if target.endswith(".md") and (ROOT / target).is_file() else None
