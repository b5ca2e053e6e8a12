"""Reads the rules in deploy/rules, with the meanings in their comments, for docs/shipped-rules.md.

A rule's name is explained once, before its first rule, by `# HELP <name> <meaning>` and `# UNIT <name> <unit>`. The comment above
a limit of node_health_metric describes it; `Source:` starts its source.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RULES = Path(__file__).resolve().parents[1] / "deploy" / "rules"
_FILES = ("resources.yaml", "usage.yaml", "errors.yaml", "health.yaml", "peers.yaml")
_LIMIT = "node_health_rule_limit"
_ABOUT = re.compile(r"^ +# (HELP|UNIT) (\w+) (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"((?:^ +#.*\n)+) +- record: " + _LIMIT, re.MULTILINE)

Row = tuple[str, ...]


class Limit(NamedTuple):
    """A limit of node_health_metric and the comment above it."""

    rule: str
    level: str
    limit: str
    """The highest healthy value."""
    about: str
    source: str


class File(NamedTuple):
    """A rule file: its text and its decoded groups."""

    name: str
    text: str
    groups: list[dict[str, Any]]


def files() -> list[File]:
    """Return the files, in the order of their dependencies."""
    texts = [(name, (RULES / name).read_text()) for name in _FILES]
    return [File(name, text, yaml.safe_load(text)["groups"]) for name, text in texts]


def series(file: File) -> Iterator[Row]:
    """Return a row per recorded name: name, unit, group, the group's own interval, meaning."""
    said = {(what, name): text for what, name, text in _ABOUT.findall(file.text)}
    seen: set[str] = set()
    for group in file.groups:
        for rule in group["rules"]:
            name = rule["record"]
            if name not in seen:
                seen.add(name)
                yield (
                    f"`{name}`",
                    said["UNIT", name],
                    f"`{group['name']}`",
                    group.get("interval", ""),
                    said["HELP", name],
                )


def limits(file: File) -> Iterator[Limit]:
    """Return the limits, in the file's order."""
    rules = [rule for group in file.groups for rule in group["rules"] if rule["record"] == _LIMIT]
    for rule, comment in zip(rules, _COMMENT.findall(file.text), strict=True):
        about, _, source = _prose(comment).partition("Source: ")
        limit = re.sub(r"vector\((.*)\)", r"\1", str(rule["expr"]))
        labels = rule["labels"]
        yield Limit(labels["rule"], labels["level"], limit, about.strip(), source.strip())


def _prose(comment: str) -> str:
    """Return the text of a comment on one line."""
    lines = [line.strip().removeprefix("#").strip() for line in comment.splitlines()]
    return " ".join(line for line in lines if not line.startswith(("HELP ", "UNIT ")))
