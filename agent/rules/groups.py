"""Rule groups out of a rule file's YAML, as strictly as Prometheus reads it; but what is wrong with a rule stops that rule only.

Prometheus refuses a whole file for one bad rule (its pkg/rulefmt). Here the others work, and each that does not is an
error with the name of its group and a reason. Alerting rules are passed over: who would be alerted is Prometheus' matter.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agent.rules import labels
from agent.rules.expressions import Expression, ExpressionError, parse
from agent.rules.labels import Labels
from plimsoll.sentences import SentenceError, shown

_GROUP_FIELDS = frozenset({"name", "interval", "limit", "query_offset", "labels", "rules"})
_RECORDING_FIELDS = frozenset({"record", "expr", "labels"})
_ALERTING_FIELDS = frozenset({"alert", "for", "keep_firing_for", "annotations"})
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII
)
_UNITS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1)
_LONGEST = 31_536_000_000
"""Milliseconds of an interval: a year."""
_MOST_RULES = 10_000
_MOST_GROUPS = 500
"""Of one file. YAML's references make a short text long; and which groups wait for which is found out group by group."""

_LONGEST_TEXT = 4096
"""Characters of a metric's name, and of a label's name or value: each series that is exported repeats them."""

SHORTEST = 1_000
"""Milliseconds between two evaluations of a group, at least."""


class RuleFileError(SentenceError):
    """A document that is no rule file."""


class RuleError(NamedTuple):
    """What keeps a rule, or a whole group where `rule` is empty, from being evaluated; the reason is one word."""

    group: str
    rule: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One recording rule."""

    record: str
    expression: Expression
    labels: Labels = ()
    """Set on each result; an empty value takes a label away."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, one after the other, over the same samples."""

    name: str
    rules: tuple[Rule, ...]
    interval: int | None = None
    """Milliseconds; None for what --rules.interval says."""
    limit: int = 0
    """The most series that a rule may record; 0 for any number."""


@dataclass(frozen=True, slots=True)
class RuleFile:
    """What a file says."""

    groups: tuple[Group, ...] = ()
    errors: tuple[RuleError, ...] = ()
    notes: tuple[str, ...] = ()
    """What is passed over, in sentences."""


class _InvalidError(SentenceError):
    """Something in a group or rule that does not belong there."""


def read(document: Any) -> RuleFile:
    """The groups of a document as `strictyaml` loads it. RuleFileError where it is no rule file at all."""
    try:
        top = _mapping(document, "the file")
        _check_fields(top, frozenset({"groups"}))
        given = _list(top.get("groups"), "groups")
        if len(given) > _MOST_GROUPS:
            raise RuleFileError(f"more than {_MOST_GROUPS} groups")
        listed = [_mapping(found, "a group") for found in given]
        rules = [found.get("rules") for found in listed]
        if sum(len(found) for found in rules if isinstance(found, list)) > _MOST_RULES:
            raise RuleFileError(f"more than {_MOST_RULES} rules")
    except _InvalidError as error:
        raise RuleFileError(str(error)) from error
    found = RuleFile()
    seen: set[str] = set()
    for number, fields in enumerate(listed, 1):
        name = fields.get("name")
        if not name or not isinstance(name, str):
            name = f"#{number}"
            more = _refused(name, "invalid", "a group without a name")
        elif name in seen:
            more = _refused(name, "duplicate", "the file has another group of this name")
        else:
            more = _group(name, fields)
        seen.add(name)
        found = RuleFile(
            found.groups + more.groups, found.errors + more.errors, found.notes + more.notes
        )
    return found


def told_apart(files: Mapping[str, RuleFile]) -> RuleFile:
    """All files as one. Groups that have their name from several files are called `file;group`, as in Prometheus."""
    names = Counter(name for found in files.values() for name in _names(found))

    def called(path: str, name: str) -> str:
        return name if names[name] == 1 else f"{path};{name}"

    return RuleFile(
        tuple(
            replace(group, name=called(path, group.name))
            for path, found in files.items()
            for group in found.groups
        ),
        tuple(
            error._replace(group=called(path, error.group))
            for path, found in files.items()
            for error in found.errors
        ),
        tuple(note for found in files.values() for note in found.notes),
    )


def _names(found: RuleFile) -> Collection[str]:
    return {group.name for group in found.groups} | {error.group for error in found.errors}


def _refused(name: str, reason: str, text: str) -> RuleFile:
    return RuleFile(errors=(RuleError(name, "", reason, text),))


def _group(name: str, fields: Mapping[str, Any]) -> RuleFile:
    try:
        _check_fields(fields, _GROUP_FIELDS)
        interval = _interval(fields.get("interval"))
        limit = _limit(fields.get("limit"))
        common = _label_values(fields.get("labels"))
        if _interval(fields.get("query_offset")):
            return _refused(
                name, "unsupported", "query_offset: samples of this node are never late"
            )
        given = _list(fields.get("rules"), "rules")
    except _InvalidError as error:
        return _refused(name, "invalid", str(error))
    rules: list[Rule] = []
    errors: list[RuleError] = []
    alerts = 0
    for number, rule in enumerate(given, 1):
        match _rule(name, f"#{number}", rule, common):
            case Rule() as found:
                rules.append(found)
            case RuleError() as failed:
                errors.append(failed)
            case None:
                alerts += 1
    return RuleFile(
        (Group(name, tuple(rules), interval, limit),),
        tuple(errors),
        tuple(_notes(name, alerts, interval)),
    )


def _notes(name: str, alerts: int, interval: int | None) -> Iterator[str]:
    if alerts:
        yield f"group {name}: {alerts} alerting rules are passed over, that is for Prometheus"
    if interval is not None and interval < SHORTEST:
        yield f"group {name}: an interval of {interval} ms is taken as 1s, the shortest there is"


def _rule(group: str, place: str, given: Any, common: Labels) -> Rule | RuleError | None:
    """None for an alerting rule."""
    named = given.get("record") if isinstance(given, dict) else None
    shown_as = named if named and isinstance(named, str) else place
    try:
        fields = _mapping(given, "a rule")
        if "alert" in fields and "record" not in fields:
            return None
        text = _expression_text(fields)
        own = _label_values(fields.get("labels"))
        expression = parse(text)
    except _InvalidError as error:
        return RuleError(group, shown_as, "invalid", str(error))
    except ExpressionError as error:
        return RuleError(group, shown_as, error.reason, str(error))
    if expression.kind == "string":
        return RuleError(group, shown_as, "type", "a rule records a scalar or a vector, no string")
    return Rule(shown_as, expression, tuple(sorted({**dict(common), **dict(own)}.items())))


def _expression_text(fields: Mapping[str, Any]) -> str:
    """The expression of a rule whose other fields are right."""
    for name in sorted(fields.keys() & _ALERTING_FIELDS):
        raise _InvalidError(f"{name} does not belong in a rule that records")
    _check_fields(fields, _RECORDING_FIELDS)
    if not (record := _text(fields.get("record"))):
        raise _InvalidError("one of record and alert is missing")
    if len(record) > _LONGEST_TEXT or _METRIC.fullmatch(record) is None:
        raise _InvalidError(f"record: {shown(record)} is no name of a metric")
    if not (text := _text(fields.get("expr"))):
        raise _InvalidError("expr is missing")
    return text


def _label_values(value: Any) -> Labels:
    found = _mapping(value, "labels")
    for name, text in found.items():
        if len(name) > _LONGEST_TEXT or _LABEL.fullmatch(name) is None or name == labels.NAME:
            raise _InvalidError(f"labels: {shown(name)} is no name of a label")
        if not isinstance(text, str):
            raise _InvalidError(f"labels: {name}: a single value belongs here")
        if len(text) > _LONGEST_TEXT:
            raise _InvalidError(f"labels: {name}: more than {_LONGEST_TEXT} characters")
    return tuple(sorted(found.items()))


def _interval(value: Any) -> int | None:
    """Milliseconds of a duration as Prometheus writes it, biggest unit first; None for none or 0."""
    text = _text(value)
    if not text or text == "0":
        return None
    found = _DURATION.fullmatch(text) if len(text) <= 40 else None
    if found is None:
        raise _InvalidError(f"{shown(text)} is no duration (write it like 5s or 1m30s)")
    total = sum(int(n) * unit for n, unit in zip(found.groups("0"), _UNITS, strict=True))
    if total > _LONGEST:
        raise _InvalidError(f"{shown(text)} is longer than a year")
    return total or None


def _limit(value: Any) -> int:
    text = _text(value) or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _InvalidError(f"limit: {shown(text)} is no number")
    return int(text)


def _check_fields(found: Mapping[str, Any], known: frozenset[str]) -> None:
    for name in sorted(found.keys() - known):
        raise _InvalidError(f"unknown field {shown(name)}")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _InvalidError("a single value belongs where there is a list or fields")
    return value


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if value in ("", None):
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _InvalidError(f"{where}: fields and their values belong here")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if value in ("", None):
        return []
    if not isinstance(value, list):
        raise _InvalidError(f"{where}: a list belongs here")
    return value
