"""The page about the rules in deploy/rules: what they record, out of the files and the comments in them.

A rule's name is explained once, before its first rule, by `# HELP <name> <meaning>` and `# UNIT <name> <unit>`. The comment above
a limit of node_health_metric says what it is about; from `Source:` on, where it is from.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RULES = Path(__file__).resolve().parents[1] / "deploy" / "rules"
_FILES = ("resources.yaml", "usage.yaml", "errors.yaml", "health.yaml")
_LIMIT = "node_health_rule_limit"
_ABOUT = re.compile(r"^ +# (HELP|UNIT) (\w+) (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"((?:^ +#.*\n)+) +- record: " + _LIMIT, re.MULTILINE)

Row = tuple[str, ...]


class Limit(NamedTuple):
    """A limit of node_health_metric and what the comment above it says."""

    rule: str
    level: str
    limit: str
    """The highest value that is still fine."""
    about: str
    source: str


class File(NamedTuple):
    """A file of rules: its text, and what YAML makes of it."""

    name: str
    text: str
    groups: list[dict[str, Any]]


def files() -> list[File]:
    """The files, in the order in which they build on one another."""
    texts = [(name, (RULES / name).read_text()) for name in _FILES]
    return [File(name, text, yaml.safe_load(text)["groups"]) for name, text in texts]


def series(file: File) -> Iterator[Row]:
    """Name, unit, group, its interval if it has one of its own, meaning: a row for each name that the file records."""
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
    """The limits, in the file's order."""
    rules = [rule for group in file.groups for rule in group["rules"] if rule["record"] == _LIMIT]
    for rule, comment in zip(rules, _COMMENT.findall(file.text), strict=True):
        about, _, source = _prose(comment).partition("Source: ")
        limit = re.sub(r"vector\((.*)\)", r"\1", str(rule["expr"]))
        labels = rule["labels"]
        yield Limit(labels["rule"], labels["level"], limit, about.strip(), source.strip())


def _prose(comment: str) -> str:
    """What a comment says in words, on one line."""
    lines = [line.strip().removeprefix("#").strip() for line in comment.splitlines()]
    return " ".join(line for line in lines if not line.startswith(("HELP ", "UNIT ")))
