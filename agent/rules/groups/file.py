"""Rule groups out of a rule file's YAML, as strictly as Prometheus reads it; but what is wrong with a rule stops that rule only.

Prometheus refuses a whole file for one bad rule (its pkg/rulefmt). Here the others work, and each that does not is an
error with the name of its group and a reason. Alerting rules are passed over: who would be alerted is Prometheus' matter.
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
"""Of one file. YAML's references make a short text long; and which groups wait for which is found out group by group."""

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


Place = tuple[str | int, ...]
"""Keys and indices that lead to a value in a document."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where a document comes from."""

    where: Callable[[Place], str] = lambda _: ""
    """Where a value stands in the file: `line 8, column 11`."""
    check: Callable[[], None] = lambda: None
    """Called before each rule; raises where reading is to end."""


def read(document: Any, context: Context | None = None) -> RuleFile:
    """The groups of a document as `strictyaml` loads it, with all errors. RuleFileError where it is no rule file at all."""
    context = context or Context()
    listed = _listed(document)
    read = [
        _group(_Reader(_name(fields, number), ("groups", number - 1), context), fields, listed)
        for number, fields in enumerate(listed, 1)
    ]
    return RuleFile(
        tuple(group for found in read for group in found.groups),
        tuple(error for found in read for error in found.errors),
        tuple(note for found in read for note in found.notes),
    )


def _listed(document: Any) -> Sequence[Mapping[str, Any]]:
    try:
        top = rulefields.mapping(document, "the file")
        for name in sorted(top.keys() - {"groups"}):
            raise RuleFileError(f"unknown field {shown(name)}")
        given = rulefields.sequence(top.get("groups"), "groups")
        if len(given) > _MOST_GROUPS:
            raise RuleFileError(f"more than {_MOST_GROUPS} groups")
        listed = [rulefields.mapping(found, "a group") for found in given]
    except InvalidError as error:
        raise RuleFileError(str(error)) from error
    rules = [found.get("rules") for found in listed]
    if sum(len(found) for found in rules if isinstance(found, list)) > _MOST_RULES:
        raise RuleFileError(f"more than {_MOST_RULES} rules")
    return listed


def _name(fields: Mapping[str, Any], number: int) -> str:
    name = fields.get("name")
    return name if name and isinstance(name, str) else f"#{number}"


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


class _Reader:
    """Reads the fields of one group or rule, and keeps what is wrong with them."""

    def __init__(self, group: str, place: Place, context: Context, rule: str = "") -> None:
        self.group = group
        self.place = place
        self.context = context
        self.errors: list[RuleError] = []
        self._rule = rule

    def within(self, rule: str, number: int) -> "_Reader":
        """For a rule of this group, the first of which has the number 1."""
        return _Reader(self.group, (*self.place, "rules", number - 1), self.context, rule)

    def refuse(self, reason: str, text: str, *field: str) -> None:
        """Something is wrong, with one of the fields or with all."""
        where = self.context.where((*self.place, *field))
        self.errors.append(
            RuleError(self.group, self._rule, reason, f"{where}: {text}" if where else text)
        )

    def get(
        self, read: Callable[[Any], Value], fields: Mapping[str, Any], name: str
    ) -> Value | None:
        """A field's value; None where it is not valid."""
        try:
            return read(fields.get(name))
        except InvalidError as error:
            self.refuse("invalid", str(error), name)
        except ExpressionError as error:
            self.refuse(error.reason, str(error), name)
        return None

    def expect(self, fields: Mapping[str, Any], known: frozenset[str]) -> None:
        """No other fields."""
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
        text = "query_offset: samples of this node are never late"
        reader.refuse("unsupported", text, "query_offset")
    given = reader.get(partial(rulefields.sequence, where="rules"), fields, "rules") or []
    valid = not reader.errors
    rules: list[Rule] = []
    alerts = 0
    for number, rule in enumerate(given, 1):
        reader.context.check()
        if _is_alert(rule):
            alerts += 1
        elif (found := _rule(reader, number, rule, common)) is not None:
            rules.append(found)
    return RuleFile(
        (Group(reader.group, tuple(rules), interval, limit),) if valid else (),
        tuple(reader.errors),
        tuple(_notes(reader.group, alerts, interval)) if valid else (),
    )


def _check_name(
    reader: _Reader, fields: Mapping[str, Any], listed: Sequence[Mapping[str, Any]]
) -> None:
    number = int(reader.place[-1])
    if reader.group != fields.get("name"):
        reader.refuse("invalid", "a group without a name")
    elif any(_name(other, n) == reader.group for n, other in enumerate(listed[:number], 1)):
        reader.refuse("duplicate", "the file has another group of this name", "name")


def _notes(name: str, alerts: int, interval: int | None) -> Iterator[str]:
    if alerts:
        yield f"group {name}: {alerts} alerting rules are passed over, that is for Prometheus"
    if interval is not None and interval < SHORTEST:
        yield f"group {name}: an interval of {interval} ms is taken as 1s, the shortest there is"


def _is_alert(given: Any) -> bool:
    return isinstance(given, dict) and "alert" in given and "record" not in given


def _rule(parent: _Reader, number: int, given: Any, common: Labels) -> Rule | None:
    """None if something is wrong with it, which is then among the group's errors."""
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
        reader.refuse("invalid", f"{name} does not belong in a rule that records", name)
    reader.expect(fields, _RECORDING_FIELDS | _ALERTING_FIELDS)


def _expression(value: Any) -> Expression:
    found = parse(rulefields.expression(value))
    if found.kind == "string":
        raise ExpressionError("a rule records a scalar or a vector, no string", "type")
    return found
