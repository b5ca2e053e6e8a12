"""Scores of a node: how often it violated policies, decaying by half in each half-life; their text in an annotation. Pure.

A score is stored as its value at the time of the last violation, and changes by violations alone: reading it at any time, or
never, leaves it as it is. One text has the scores and which violations are still going on, so writing it counts a violation
exactly once: a writer that is killed before the write has counted nothing, one killed after it finds the violation as counted.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evaluator.core.model.names import PolicyKey
from plimsoll import rfc3339

ANNOTATION = "plimsoll.io/memory"
"""Of a node: its scores. Of a policy: the half-life."""
LONGEST = 16_384
"""Characters of an annotation that are read; those written have at most MOST_POLICIES entries of some 350 bytes."""
MOST_POLICIES = 40
LEAST = 0.01
"""A score below it is forgotten with the next write."""
MOST = 1e6
"""Scores above it were not written by us."""


class Score(NamedTuple):
    """The score of one node and policy. `value`: at the time `at` (Unix seconds); `violated`: a counted violation goes on."""

    value: float
    at: float
    violated: bool = False

    def now(self, now: float, half_life: float) -> float:
        """Return the score at `now` (Unix seconds); before `at`, when clocks differ, it is the stored value."""
        decayed: float = self.value * 2.0 ** (-max(0.0, now - self.at) / half_life)
        return decayed

    def counted(self, now: float, half_life: float) -> "Score":
        """Return the score with a violation that begins at `now`."""
        return Score(self.now(now, half_life) + 1.0, max(now, self.at), violated=True)


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
    ) -> "NodeMemory":
        """Return the memory at `now` (Unix seconds), the same object if nothing begins or ends.

        `violated`: the policies with a memory that the node violates; `undecided`: those without a verdict, which stay as
        they are. `half_lives`: of all policies with a memory (seconds).
        """
        found = dict(self.scores)
        for key in violated:
            score = found.get(key, Score(0.0, now))
            if not score.violated:
                found[key] = score.counted(now, half_lives[key])
        for key, score in self.scores.items():
            if score.violated and key not in violated and key not in undecided:
                found[key] = score._replace(violated=False)
        if found == self.scores:
            return self
        return NodeMemory(self.system, dict(_kept(found, half_lives, now)))

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
    more = {"violated": True} if score.violated else {}
    return {"score": score.value, "at": rfc3339.micros(score.at), **more}


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
    for key in order[:MOST_POLICIES]:
        if known[key] > (False, LEAST):
            yield key, scores[key]


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
    if not isinstance(system, str) or len(scores) > MOST_POLICIES:
        return NodeMemory()
    return NodeMemory(system, scores)


def _key(name: str) -> PolicyKey:
    namespace, slash, policy = name.partition("/")
    if not namespace or not slash or not policy:
        raise ValueError(name)
    return PolicyKey(namespace, policy)


def _score(entry: Mapping[str, Any]) -> Score:
    value, violated = entry["score"], entry.get("violated", False)
    if type(value) not in (int, float) or type(violated) is not bool or not 0 <= value <= MOST:
        raise ValueError(entry)
    at = rfc3339.parse(entry["at"])
    if not math.isfinite(at):
        raise ValueError(entry)
    return Score(float(value), at, violated)
