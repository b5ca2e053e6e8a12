"""Reads rule groups from YAML as strictly as Prometheus, but an error disables only the rule that has it.

Prometheus rejects the whole file for one bad rule (its pkg/rulefmt). Here the other rules work, and each error has the
group's name and a reason. Alerting rules are skipped.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from agent.rules.groups import fields as rulefields
from agent.rules.groups.fields import InvalidError
from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import Expression, parse
from agent.rules.promql.labels import Labels
from plimsoll.text import SentenceError, shown

Value = TypeVar("Value")
_GROUP_FIELDS = frozenset({"name", "interval", "limit", "query_offset", "labels", "rules"})
_RECORDING_FIELDS = frozenset({"record", "expr", "labels"})
_ALERTING_FIELDS = frozenset({"alert", "for", "keep_firing_for", "annotations"})
_MOST_RULES = 10_000
_MOST_GROUPS = 500
"""Maximum groups of a file: YAML aliases make a short text long, and dependencies are computed per group."""

SHORTEST = 1_000
"""Minimum interval of a group in ms."""


class RuleFileError(SentenceError):
    """A document is not a rule file."""


class RuleError(NamedTuple):
    """Why a rule, or a whole group if `rule` is empty, is not evaluated; `reason` is one word."""

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
    """Set on each result; an empty value removes the label."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated in sequence over the same samples."""

    name: str
    rules: tuple[Rule, ...]
    interval: int | None = None
    """Milliseconds; None for --rules.interval."""
    limit: int = 0
    """Maximum series that a rule may record; 0 for no limit."""


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The contents of a rule file."""

    groups: tuple[Group, ...] = ()
    errors: tuple[RuleError, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what is ignored."""


Place = tuple[str | int, ...]
"""Path of keys and indices to a value in a document."""


@dataclass(frozen=True, slots=True)
class Context:
    """The source of a document."""

    where: Callable[[Place], str] = lambda _: ""
    """Returns the position of a value in the file: `line 8, column 11`."""
    check: Callable[[], None] = lambda: None
    """Called before each rule; raises to stop reading."""


def read(document: Any, context: Context | None = None) -> RuleFile:
    """Return the groups and all errors of a document loaded by `strictyaml`. Raises RuleFileError if it is not a rule file."""
    context = context or Context()
    listed = _listed(document)
    read = [
        _group(_Reader(_name(fields, number), ("groups", number - 1), context), fields, listed)
        for number, fields in enumerate(listed, 1)
    ]
    return RuleFile(
        tuple(group for part in read for group in part.groups),
        tuple(error for part in read for error in part.errors),
        tuple(note for part in read for note in part.notes),
    )


def _listed(document: Any) -> Sequence[Mapping[str, Any]]:
    try:
        top = rulefields.mapping(document, "the file")
        for name in sorted(top.keys() - {"groups"}):
            raise RuleFileError(f"unknown field {shown(name)}")
        given = rulefields.sequence(top.get("groups"), "groups")
        if len(given) > _MOST_GROUPS:
            raise RuleFileError(f"the file has more than {_MOST_GROUPS} groups")
        listed = [rulefields.mapping(group, "a group") for group in given]
    except InvalidError as error:
        raise RuleFileError(str(error)) from error
    rules = [group.get("rules") for group in listed]
    if sum(len(group) for group in rules if isinstance(group, list)) > _MOST_RULES:
        raise RuleFileError(f"the file has more than {_MOST_RULES} rules")
    return listed


def _name(fields: Mapping[str, Any], number: int) -> str:
    name = fields.get("name")
    return name if name and isinstance(name, str) else f"#{number}"


def merged_files(files: Mapping[str, RuleFile]) -> RuleFile:
    """Merge files. Groups whose name occurs in several files are renamed `file;group`, as in Prometheus."""
    names = Counter(name for rule_file in files.values() for name in _names(rule_file))

    def called(path: str, name: str) -> str:
        return name if names[name] == 1 else f"{path};{name}"

    return RuleFile(
        tuple(
            replace(group, name=called(path, group.name))
            for path, rule_file in files.items()
            for group in rule_file.groups
        ),
        tuple(
            error._replace(group=called(path, error.group))
            for path, rule_file in files.items()
            for error in rule_file.errors
        ),
        tuple(note for rule_file in files.values() for note in rule_file.notes),
    )


def _names(rule_file: RuleFile) -> Collection[str]:
    return {group.name for group in rule_file.groups} | {error.group for error in rule_file.errors}


class _Reader:
    """Reads the fields of one group or rule, and collects their errors."""

    def __init__(self, group: str, path: Place, context: Context, rule: str = "") -> None:
        self.group = group
        self.path = path
        self.context = context
        self.errors: list[RuleError] = []
        self._rule = rule

    def within(self, rule: str, number: int) -> "_Reader":
        """Return a reader for a rule of this group; rules are numbered from 1."""
        return _Reader(self.group, (*self.path, "rules", number - 1), self.context, rule)

    def refuse(self, reason: str, text: str, *field: str) -> None:
        """Record an error of one field, or of the whole."""
        where = self.context.where((*self.path, *field))
        self.errors.append(
            RuleError(self.group, self._rule, reason, f"{where}: {text}" if where else text)
        )

    def get(
        self, read: Callable[[Any], Value], fields: Mapping[str, Any], name: str
    ) -> Value | None:
        """Return a field's value; None if it is invalid."""
        try:
            return read(fields.get(name))
        except InvalidError as error:
            self.refuse("invalid", str(error), name)
        except ExpressionError as error:
            self.refuse(error.reason, str(error), name)
        return None

    def expect(self, fields: Mapping[str, Any], known: frozenset[str]) -> None:
        """Record an error for each field that is not known."""
        for name in sorted(fields.keys() - known):
            self.refuse("invalid", f"unknown field {shown(name)}", name)


def _group(
    reader: _Reader, fields: Mapping[str, Any], listed: Sequence[Mapping[str, Any]]
) -> RuleFile:
    _check_name(reader, fields, listed)
    reader.expect(fields, _GROUP_FIELDS)
    interval = reader.get(rulefields.interval, fields, "interval")
    limit = reader.get(rulefields.limit, fields, "limit") or 0
    common = reader.get(rulefields.label_values, fields, "labels") or ()
    if reader.get(rulefields.interval, fields, "query_offset"):
        text = "query_offset is not supported: samples of this node are never late"
        reader.refuse("unsupported", text, "query_offset")
    given = reader.get(partial(rulefields.sequence, where="rules"), fields, "rules") or []
    valid = not reader.errors
    rules: list[Rule] = []
    alerts = 0
    for number, rule in enumerate(given, 1):
        reader.context.check()
        if _is_alert(rule):
            alerts += 1
        elif (valid_rule := _rule(reader, number, rule, common)) is not None:
            rules.append(valid_rule)
    return RuleFile(
        (Group(reader.group, tuple(rules), interval, limit),) if valid else (),
        tuple(reader.errors),
        tuple(_notes(reader.group, alerts, interval)) if valid else (),
    )


def _check_name(
    reader: _Reader, fields: Mapping[str, Any], listed: Sequence[Mapping[str, Any]]
) -> None:
    number = int(reader.path[-1])
    if reader.group != fields.get("name"):
        reader.refuse("invalid", "the group has no name")
    elif any(_name(other, n) == reader.group for n, other in enumerate(listed[:number], 1)):
        reader.refuse("duplicate", "the file has another group of this name", "name")


def _notes(name: str, alerts: int, interval: int | None) -> Iterator[str]:
    if alerts:
        yield f"group {name}: {alerts} alerting rules are ignored; use Prometheus to evaluate them"
    if interval is not None and interval < SHORTEST:
        yield f"group {name}: an interval of {interval} ms is below the minimum; using 1s"


def _is_alert(given: Any) -> bool:
    return isinstance(given, dict) and "alert" in given and "record" not in given


def _rule(parent: _Reader, number: int, given: Any, common: Labels) -> Rule | None:
    """Return a rule, or None after recording its errors with the group's."""
    named = given.get("record") if isinstance(given, dict) else None
    reader = parent.within(named if named and isinstance(named, str) else f"#{number}", number)
    try:
        fields = rulefields.mapping(given, "a rule")
    except InvalidError as error:
        reader.refuse("invalid", str(error))
        fields = {}
    else:
        _check_fields(reader, fields)
    record = (
        reader.get(rulefields.record, fields, "record") if fields or not reader.errors else None
    )
    expression = reader.get(_expression, fields, "expr") if fields else None
    own = reader.get(rulefields.label_values, fields, "labels")
    parent.errors += reader.errors
    if reader.errors or record is None or expression is None:
        return None
    return Rule(record, expression, tuple(sorted({**dict(common), **dict(own or ())}.items())))


def _check_fields(reader: _Reader, fields: Mapping[str, Any]) -> None:
    for name in sorted(fields.keys() & _ALERTING_FIELDS):
        reader.refuse("invalid", f"{name} is not allowed in a recording rule", name)
    reader.expect(fields, _RECORDING_FIELDS | _ALERTING_FIELDS)


def _expression(value: Any) -> Expression:
    expression = parse(rulefields.expression(value))
    if expression.kind == "string":
        raise ExpressionError("a rule can record a scalar or a vector, not a string", "type")
    return expression
