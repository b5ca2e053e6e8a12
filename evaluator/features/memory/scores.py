"""Scores of a node: how often it violated policies, decaying by half in each half-life; their text in an annotation. Pure.

A score is stored as its value at the time of the last violation, and changes by violations alone: reading it at any time, or
never, leaves it as it is. One text has the scores and which violations are still going on, so writing it counts a violation
exactly once: a writer that is killed before the write has counted nothing, one killed after it finds the violation as counted.

A violation whose cause names devices counts for each of them too, by UUID or serial number where the cause has one: a new device
starts anew, while the score of the node stays.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evaluator.core.model.names import PolicyKey
from plimsoll import rfc3339

ANNOTATION = "plimsoll.io/memory"
"""Of a node: its scores. Of a policy: the half-life."""
LONGEST = 19_999
"""Characters of an annotation that are read; the cache keeps one more. Those written have at most 19,500: see the next constants."""
MOST_POLICIES = 40
"""Policies of a node, those with the highest scores; each takes at most 410 characters."""
MOST_DEVICES = 12
"""Devices of a node in all, those with the highest scores; each takes at most 240 characters."""
LONGEST_DEVICE = 80
_IDENTITIES = ("UUID", "uuid", "serial")
"""Labels that name the device itself, the best first. Others name where it is, such as its PCI address."""
LEAST = 0.01
"""A score below it is forgotten with the next write."""
SKEW = 5.0
"""Seconds by which the clock of another replica may be ahead; a time that is later is written anew, as now."""
MOST = 1e6
"""The highest score; those above it were not written by us."""


class Decaying(NamedTuple):
    """A number that halves in each half-life. `value`: at the time `at` (Unix seconds)."""

    value: float
    at: float

    def now(self, now: float, half_life: float) -> float:
        """Return the number at `now` (Unix seconds); before `at`, when clocks differ, it is the stored value."""
        decayed: float = self.value * 2.0 ** (-max(0.0, now - self.at) / half_life)
        return decayed

    def until(self, now: float) -> "Decaying":
        """Return the number with a time of at most `now`."""
        return self._replace(at=rfc3339.bounded(self.at, now) or 0.0)

    def counted(self, now: float, half_life: float) -> "Decaying":
        """Return the number with 1 added at `now`, at most MOST."""
        return Decaying(min(MOST, self.now(now, half_life) + 1.0), max(now, self.at))


class Score(NamedTuple):
    """The score of one node and policy. `value`: at the time `at` (Unix seconds); `violated`: a counted violation goes on.

    `devices`: those that the causes of counted violations name, each with a score of its own.
    """

    value: float
    at: float
    violated: bool = False
    devices: Mapping[str, Decaying] = {}

    def now(self, now: float, half_life: float) -> float:
        """Return the score at `now` (Unix seconds); before `at`, when clocks differ, it is the stored value."""
        return Decaying(self.value, self.at).now(now, half_life)

    def until(self, now: float) -> "Score":
        """Return the score with times of at most `now`: a score of the future never decays."""
        devices = {name: one.until(now) for name, one in self.devices.items()}
        return self._replace(at=rfc3339.bounded(self.at, now) or 0.0, devices=devices)

    def is_after(self, now: float) -> bool:
        """Return whether it has times later than `now`."""
        return self.at > now or any(one.at > now for one in self.devices.values())

    def counted(self, now: float, half_life: float, devices: Collection[str] = ()) -> "Score":
        """Return the score with a violation that begins at `now`, caused by some devices."""
        own = Decaying(self.value, self.at).counted(now, half_life)
        new = Decaying(0.0, now)
        named = {name: self.devices.get(name, new).counted(now, half_life) for name in devices}
        return Score(*own, violated=True, devices={**self.devices, **named})


DevicesOf = Callable[[PolicyKey], Collection[str]]
Scores = Mapping[PolicyKey, Score]


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What a node's annotation says. `system`: the systemUUID of the machine that it is about."""

    system: str = ""
    scores: Scores = field(default_factory=dict)

    def about(self, system: str) -> "NodeMemory":
        """Return the memory of the machine with this systemUUID: nothing if the node's name now belongs to another one."""
        return self if self.system == system else NodeMemory(system)

    def after(
        self,
        violated: Collection[PolicyKey],
        undecided: Collection[PolicyKey],
        half_lives: Mapping[PolicyKey, float],
        now: float,
        devices_of: DevicesOf = lambda _key: (),
    ) -> "NodeMemory":
        """Return the memory at `now` (Unix seconds), the same object if nothing begins or ends, and no time is later than
        SKEW seconds from now.

        `violated`: the policies with a memory that the node violates; `undecided`: those without a verdict, which stay as
        they are. `half_lives`: of all policies with a memory (seconds); a policy that lost it since it was decided counts
        nothing. `devices_of` returns the devices that cause the violation of a policy.
        """
        found = dict(self.scores)
        for key in found.keys() & half_lives.keys() - undecided:
            if found[key].is_after(now + SKEW):
                found[key] = found[key].until(now)
        for key in half_lives.keys() & violated:
            score = found.get(key, Score(0.0, now))
            if not score.violated:
                found[key] = score.counted(now, half_lives[key], devices_of(key))
        for key, score in found.items():
            if score.violated and key not in violated and key not in undecided:
                found[key] = score._replace(violated=False)
        if found == self.scores:
            return self
        return NodeMemory(self.system, dict(_kept(found, half_lives, now)))

    def until(self, now: float) -> "NodeMemory":
        """Return the memory with times of at most `now`: clocks differ, and anyone who may annotate nodes may write any year."""
        return NodeMemory(self.system, {key: one.until(now) for key, one in self.scores.items()})

    @property
    def violated(self) -> frozenset[PolicyKey]:
        """The policies whose violation goes on."""
        return frozenset(key for key, score in self.scores.items() if score.violated)

    def text(self) -> str:
        """Return the annotation, with times in microseconds; empty without scores."""
        if not self.scores:
            return ""
        entries = {str(key): _entry(score) for key, score in sorted(self.scores.items())}
        return json.dumps({"systemUUID": self.system, "scores": entries}, separators=(",", ":"))


def _entry(score: Score) -> dict[str, Any]:
    violated = {"violated": True} if score.violated else {}
    named = {
        name: {"score": one.value, "at": rfc3339.micros(one.at)}
        for name, one in sorted(score.devices.items())
    }
    more = {"devices": named} if named else {}
    return {"score": score.value, "at": rfc3339.micros(score.at), **violated, **more}


def _kept(
    scores: Scores, half_lives: Mapping[PolicyKey, float], now: float
) -> Iterator[tuple[PolicyKey, Score]]:
    """Yield the scores to keep: not what is forgotten, nor what policies without a memory left behind; the highest ones."""
    known = {
        key: (score.violated, score.now(now, half_lives[key]))
        for key, score in scores.items()
        if key in half_lives
    }
    order = sorted(known, key=lambda key: (known[key], key), reverse=True)
    kept = [key for key in order[:MOST_POLICIES] if known[key] > (False, LEAST)]
    ordered = sorted(
        (one.now(now, half_lives[key]), key, name)
        for key in kept
        for name, one in scores[key].devices.items()
    )
    remembered = {(key, name) for left, key, name in ordered[-MOST_DEVICES:] if left > LEAST}
    for key in kept:
        own = {n: one for n, one in scores[key].devices.items() if (key, n) in remembered}
        yield key, scores[key]._replace(devices=own)


def devices(cause: str) -> list[str]:
    """Return the devices that the cause of a reading names, such as `UUID=GPU-1` or `controller=mc0, dimm=dimm3`.

    A cause is like `rule: label=value, label=value; rule: label=value`. A part without labels names no device. Names are
    ASCII text of at most LONGEST_DEVICE characters: the text of a cause is untrusted.
    """
    found: dict[str, bool] = {}
    for part in cause.split("; "):
        rule, _, text = part.partition(": ")
        labels = [one for one in (part if "=" in rule else text).split(", ") if "=" in one]
        by_name = dict(one.split("=", 1) for one in labels)
        known = (f"{name}={by_name[name]}" for name in _IDENTITIES if by_name.get(name))
        if name := _ascii(next(known, ", ".join(labels))):
            found[name] = True
    return list(found)[:MOST_DEVICES]


def _ascii(text: str) -> str:
    """Return text as printable ASCII without quotes and backslashes, which JSON would lengthen, shortened."""
    plain = "".join(c if " " <= c <= "~" and c not in '"\\' else "?" for c in text[:LONGEST_DEVICE])
    return plain.strip()


def parse(text: str) -> NodeMemory:
    """Return what an annotation says; anything that we would not write counts as nothing, since others may write it too."""
    if not text or len(text) > LONGEST:
        return NodeMemory()
    try:
        found = json.loads(text)
        scores = {_key(name): _score(entry) for name, entry in found["scores"].items()}
        system = found["systemUUID"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return NodeMemory()
    named = sum(len(score.devices) for score in scores.values())
    if not isinstance(system, str) or len(scores) > MOST_POLICIES or named > MOST_DEVICES:
        return NodeMemory()
    return NodeMemory(system, scores)


def _key(name: str) -> PolicyKey:
    namespace, slash, policy = name.partition("/")
    if not namespace or not slash or not policy:
        raise ValueError(name)
    return PolicyKey(namespace, policy)


def _score(entry: Mapping[str, Any]) -> Score:
    violated, named = entry.get("violated", False), entry.get("devices", {})
    if type(violated) is not bool or any(not name or _ascii(name) != name for name in named):
        raise ValueError(entry)
    of_devices = {name: _decaying(one) for name, one in named.items()}
    return Score(*_decaying(entry), violated, of_devices)


def _decaying(entry: Mapping[str, Any]) -> Decaying:
    value = entry["score"]
    if type(value) not in (int, float) or not 0 <= value <= MOST:
        raise ValueError(entry)
    at = rfc3339.parse(entry["at"])
    if at < 0:
        raise ValueError(entry)
    return Decaying(float(value), at)
