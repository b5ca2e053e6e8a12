"""What the object of the stop says: a ConfigMap with an entry for each stopped policy, or for all. Pure.

A key of `data` is `all` or `<namespace>.<policy>`; namespaces have no dots. A value is a JSON object with `mode` (`freeze`
or `release`), `by`, `at` and `reason`, or any other text, which is a reason to freeze. Anyone with the right to write the
object may write anything into it: what is unreadable freezes whatever it may mean.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from evaluator.core.model.names import UNREADABLE, PolicyKey
from evaluator.core.policy.stops import RUNS, Stop, Stops
from plimsoll import rfc3339
from plimsoll.text import one_line, shown

NAME = "plimsoll-stop"
ALL = "all"
FREEZE, RELEASE = "freeze", "release"
LARGEST = 256 << 10
"""Bytes of an object that is read; a larger one freezes all policies."""
MOST_ENTRIES = 500
"""Entries that are read; more of them freeze all policies."""
_LONGEST = 200
"""Characters of a name or reason."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_POLICY = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}", re.ASCII)


class StopEntry(NamedTuple):
    """One entry. `policy`: None for all; `by` is what the writer claims, `at` RFC 3339; empty if it does not say.

    `problem`: what is wrong with it, as a sentence.
    """

    policy: PolicyKey | None
    mode: str = FREEZE
    by: str = ""
    at: str = ""
    reason: str = ""
    problem: str = ""

    @property
    def why(self) -> str:
        """By whom, when and why: `alice, 2026-11-20T09:15:04Z: storage migration`."""
        stated = ", ".join(part for part in (self.by or "by an unknown user", self.at) if part)
        return ": ".join(part for part in (stated, self.reason, self.problem) if part)

    @property
    def sentence(self) -> str:
        """What is stopped, and why."""
        what = "all policies are" if self.policy is None else f"policy {self.policy} is"
        how = "frozen" if self.mode == FREEZE else "only observed"
        return f"{what} {how} ({self.why})"

    @property
    def stop(self) -> Stop:
        """How its policies are stopped."""
        if self.mode == RELEASE:
            return Stop(observed_by=f"{NAME} ({self.why})")
        return Stop(frozen=True)


@dataclass(frozen=True)
class StopObject:
    """The entries of an object; none if there is no object. `doubtful`: something is unreadable: all policies are frozen."""

    name: str = NAME
    entries: tuple[StopEntry, ...] = ()
    doubtful: bool = False

    @cached_property
    def by_policy(self) -> Mapping[PolicyKey | None, StopEntry]:
        """The entries by policy, that of all policies by None; of several, one that freezes."""
        found: dict[PolicyKey | None, StopEntry] = {}
        for entry in self.entries:
            if entry.policy not in found or entry.mode == FREEZE:
                found[entry.policy] = entry
        return found

    def entry(self, policy: PolicyKey) -> StopEntry | None:
        """Return the entry that stops a policy: its own before that of all policies."""
        of_all = self.by_policy.get(None)
        return of_all if self.doubtful else self.by_policy.get(policy, of_all)

    @cached_property
    def stops(self) -> Stops:
        """How policies are stopped."""
        if self.doubtful:
            return Stops(Stop(frozen=True))
        of_all = self.by_policy.get(None)
        named = {key: entry.stop for key, entry in self.by_policy.items() if key is not None}
        return Stops(of_all.stop if of_all else RUNS, named)


class _Named(msgspec.Struct):
    name: str = ""


class _ConfigMap(msgspec.Struct, rename="camel"):
    metadata: _Named = msgspec.field(default_factory=_Named)
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class _Value(msgspec.Struct):
    mode: Any = FREEZE
    by: Any = ""
    at: Any = ""
    reason: Any = ""


_decode_config_map = msgspec.json.Decoder(_ConfigMap).decode
_decode_value = msgspec.json.Decoder(_Value).decode


def parse(raw: bytes | msgspec.Raw) -> StopObject:
    """Return what a ConfigMap says; never fails, since an object that is skipped would stop nothing."""
    if len(raw) > LARGEST:
        return _doubtful(f"the object has {len(raw)} bytes, more than {LARGEST}")
    try:
        found = _decode_config_map(raw)
    except UNREADABLE as error:
        return _doubtful(f"the object is unreadable: {one_line(str(error), _LONGEST)}")
    texts = {**dict.fromkeys(found.binary_data or {}, ""), **(found.data or {})}
    if len(texts) > MOST_ENTRIES:
        text = f"the object has {len(texts)} entries, more than {MOST_ENTRIES}"
        return _doubtful(text, found.metadata.name)
    entries = tuple(_entry(key, text) for key, text in sorted(texts.items()))
    doubtful = any(_policy(key) is None and key != ALL for key in texts)
    return StopObject(found.metadata.name, entries, doubtful)


def _doubtful(problem: str, name: str = NAME) -> StopObject:
    return StopObject(name, (StopEntry(None, problem=problem),), doubtful=True)


RAISED = _doubtful("an internal error: the evaluator's log has it")
"""What an object says whose reading raised."""


def _policy(key: str) -> PolicyKey | None:
    """Return the policy that a key names, or None."""
    namespace, _, name = key.partition(".")
    valid = _NAMESPACE.fullmatch(namespace) and _POLICY.fullmatch(name)
    return PolicyKey(namespace, name) if valid else None


def _entry(key: str, text: str) -> StopEntry:
    policy = _policy(key)
    if policy is None and key != ALL:
        odd = f"the key {shown(key)} is neither {ALL} nor <namespace>.<policy>"
        return _value(None, text)._replace(mode=FREEZE, problem=odd)
    return _value(policy, text)


def _value(policy: PolicyKey | None, text: str) -> StopEntry:
    if not text.lstrip().startswith("{"):
        return StopEntry(policy, reason=one_line(text, _LONGEST))
    try:
        found = _decode_value(text)
    except UNREADABLE:
        return StopEntry(policy, problem=f"unreadable: {one_line(text, _LONGEST)}")
    problem, mode = "", found.mode
    if mode not in (FREEZE, RELEASE):
        problem, mode = f"mode {shown(mode)} is neither {FREEZE} nor {RELEASE}", FREEZE
    return StopEntry(policy, mode, _text(found.by), _time(found.at), _text(found.reason), problem)


def _text(value: object) -> str:
    return one_line(value, _LONGEST) if isinstance(value, str) else shown(value)


def _time(value: object) -> str:
    """Return a time as RFC 3339 in UTC; empty for anything else."""
    at = rfc3339.parse_or_none(value) if isinstance(value, str) and len(value) < _LONGEST else None
    return "" if at is None else rfc3339.seconds(at)
