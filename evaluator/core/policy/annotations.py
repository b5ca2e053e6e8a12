"""The `plimsoll.io/` annotations of a policy: which are declared, which are misspelt, and which are in force.

A key that no feature declares is misspelt if it resembles a declared one; any other may belong to a newer version. A
misspelt key is a guess at what the author wanted, so nothing changes until it is corrected: a policy that was never
enforced is only observed, and one that is enforced keeps the annotations that were in force before. They are read from the
policy before the edit, or after a restart from its status. `plimsoll.io/enforcement: observe` counts all the same.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from evaluator.core.model.names import ENFORCEMENT
from evaluator.core.policy.types import Policy
from plimsoll.text import counted, shown

DOMAIN = "plimsoll.io/"
IN_FORCE = "annotationsInForce"
"""The field of a policy's status with the annotations in force, as `key=value`."""

_LETTERS = 2
"""Letters by which a misspelt key differs from a declared one, at most."""
_COMPARED = 100
"""Keys that are compared with the declared ones. Comparing one takes up to 0.2 ms."""
_NAMED = 5
"""Keys that problems and warnings name; the others are counted."""
_LONGEST_VALUE = 1000
"""Characters of a value in the status. No valid value is longer."""


class Unknown(NamedTuple):
    """A key that no feature declares. `noun`: annotation or label; `similar`: the declared key it resembles, or empty."""

    noun: str
    key: str
    similar: str

    def __str__(self) -> str:
        return f"{self.noun} {_key(self.key)}"

    @property
    def mistake(self) -> str:
        """What is wrong with a misspelt key."""
        if self.key == self.similar:
            return f"{self} has no effect, write it as an annotation"
        return f"{self} is unknown, similar: {self.similar}"


@dataclass(frozen=True, slots=True)
class Annotations:
    """The annotations of a policy.

    `in_force`: declared annotations by key; `misspelt`: whether a key resembles a declared one; `observed_by`: the
    misspelt key that keeps the policy from being enforced.
    """

    in_force: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    misspelt: bool = False
    observed_by: str = ""


class Past(NamedTuple):
    """How a policy was understood before its keys were misspelt. `in_force`: None if only its mode is known."""

    enforced: bool = False
    in_force: Mapping[str, Any] | None = None


def past(before: Policy | None, uid: str, status: Mapping[str, Any]) -> Past:
    """Return how a policy is understood so far: by the policy before an edit, else by the status in the cluster.

    `before`: the policy of this name before the edit. The status is at most a moment behind it.
    """
    known = before if before is not None and before.uid == uid else None
    if known is not None and not (known.misspelt and known.observed):
        return Past(not known.observed, known.annotations)
    return Past(status.get("enforcement") == "Enforce", _recorded(status))


NO_PAST = Past()
"""Of a policy that was never enforced."""


def understand(meta: Mapping[str, Any], declared: Set[str], so_far: Past = NO_PAST) -> Annotations:
    """Return the annotations of a policy's metadata, by the keys that features declare."""
    given = meta.get("annotations") or {}
    own: Mapping[str, Any] = {key: given[key] for key in given if key in declared}
    undeclared, more = unknown(meta, declared)
    misspelt = [one for one in undeclared if one.similar]
    warnings = tuple(_warnings([one for one in undeclared if not one.similar]))
    if not misspelt and not more:
        return Annotations(own, warnings=warnings)
    if so_far.enforced:
        own = _kept(own, so_far.in_force, declared)
        meanwhile, observed_by = "the policy is enforced as before this mistake", ""
    else:
        first = f"unknown {misspelt[0]}" if misspelt else "unknown annotations"
        meanwhile, observed_by = "the policy is only observed", f"the {first}"
    problems = tuple(_problems(misspelt, more, meanwhile))
    return Annotations(own, problems, warnings, misspelt=True, observed_by=observed_by)


def record(in_force: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the annotations as the status records them."""
    return tuple(
        f"{key}={value}"
        for key, value in sorted(in_force.items())
        if len(str(value)) <= _LONGEST_VALUE
    )


def _recorded(status: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the annotations that an unvalidated status records; None if it has none, as of older versions."""
    found = status.get(IN_FORCE)
    if not isinstance(found, list):
        return None
    pairs = (text.partition("=") for text in found if isinstance(text, str))
    return {key: value for key, _, value in pairs}


def _kept(
    own: Mapping[str, Any], in_force: Mapping[str, Any] | None, declared: Set[str]
) -> Mapping[str, Any]:
    """Return the annotations of before the mistake, with the mode as it is written now; `own` if they are not known."""
    if in_force is None:
        return own
    kept = {key: in_force[key] for key in in_force if key in declared and key != ENFORCEMENT}
    return kept | {key: own[key] for key in own if key == ENFORCEMENT}


def unknown(meta: Mapping[str, Any], declared: Set[str]) -> tuple[Sequence[Unknown], bool]:
    """Return the keys of our domain that no feature declares, and whether there are more than are compared."""
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    keys = [
        *(("annotation", key) for key in annotations if key not in declared),
        *(("label", key) for key in labels),
    ]
    compared = [*islice((pair for pair in keys if _may_be_ours(pair[1])), _COMPARED + 1)]
    known = frozenset(declared)
    found = (Unknown(noun, key, resembled(key, known)) for noun, key in compared[:_COMPARED])
    ours = [one for one in found if one.similar or one.key.startswith(DOMAIN)]
    return ours, len(compared) > _COMPARED


def _problems(misspelt: Sequence[Unknown], more: bool, meanwhile: str) -> Iterator[str]:
    for one in misspelt[:_NAMED]:
        yield f"{one.mistake}: {meanwhile} until that is corrected"
    if (rest := len(misspelt) - _NAMED) > 0:
        yield f"{counted(rest, 'more key')} of {DOMAIN} resemble known ones: {meanwhile} until they are corrected"
    if more:
        yield f"more than {_COMPARED} keys of {DOMAIN} are unknown: {meanwhile} until they are removed"


def _warnings(others: Sequence[Unknown]) -> Iterator[str]:
    for one in others[:_NAMED]:
        yield f"{one} is unknown to this version and changes nothing"
    if (rest := len(others) - _NAMED) > 0:
        yield f"{counted(rest, 'more key')} of {DOMAIN} are unknown to this version and change nothing"


def _key(key: str) -> str:
    """Return a key for a message: bounded, and without characters that no key can have."""
    return key if len(key) <= 80 and key.isprintable() else shown(key)


def _may_be_ours(key: str) -> bool:
    """Return whether the domain of a key has about as many letters as ours."""
    return abs(key.find("/") - len(DOMAIN) + 1) <= _LETTERS


@lru_cache(maxsize=1024)
def resembled(key: str, declared: frozenset[str]) -> str:
    """Return the declared key that a misspelt one resembles most; empty if it resembles none.

    Case, `-`, `_` and `.` do not count as letters.
    """
    domain, _, name = key.partition("/")
    left = _LETTERS - distance(domain.lower(), DOMAIN[:-1], _LETTERS)
    letters = _letters(name)
    rated = (
        (distance(letters, _letters(other.removeprefix(DOMAIN)), left), other) for other in declared
    )
    return min(((far, other) for far, other in rated if far <= left), default=(0, ""))[1]


def _letters(name: str) -> str:
    return name.lower().translate(_SEPARATORS)


_SEPARATORS = str.maketrans("", "", "-_.")


def distance(one: str, other: str, most: int) -> int:
    """Return how many letters are added, missing, replaced or swapped with their neighbour; `most` + 1 if more are.

    The optimal string alignment distance: https://en.wikipedia.org/wiki/Damerau-Levenshtein_distance.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    earlier: list[int] = []
    row = [*range(len(other) + 1)]
    for i, a in enumerate(one, start=1):
        last, earlier, row = earlier, row, [i]
        for j, b in enumerate(other, start=1):
            far = min(earlier[j] + 1, row[j - 1] + 1, earlier[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                far = min(far, last[j - 2] + 1)
            row.append(far)
        if min(row) > most and (not earlier or min(earlier) > most):
            return most + 1
    return row[-1] if row[-1] <= most else most + 1
