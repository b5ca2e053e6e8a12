"""The evictions of the last hour in a ConfigMap, so that they count for the next leader, too, and what came back to its node.

The object has how long before its write each eviction happened. How long ago the write was is the difference between its time
and that of the next write, both as the API server recorded them in managedFields: the clocks of replicas are not used, so
that one that jumps neither frees nor blocks anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from evaluator.core.model.names import UNREADABLE, PolicyKey
from evaluator.core.model.node_labels import FIELD_MANAGER
from evaluator.features.evictions.history import HOUR, Left, Place
from plimsoll import rfc3339

NAME = "plimsoll-evictions"
"""The ConfigMap, in the evaluator's namespace."""
KEY = "evictions.json"
_MOST_BYTES = 900_000
"""Bytes of the document: Kubernetes objects are limited to 1 MiB."""
_MINUTE = 60.0
_RESOLUTION = 1.0
"""Of the times that the API server records (seconds)."""
_MOST_TIMES = 100_000
"""Evictions of all policies that are read."""


class JournalError(Exception):
    """The ConfigMap has no evictions that can be read, or they are too many to be written; the message says why."""


class _Left(msgspec.Struct):
    """What left a node, see `history.Left`."""

    policy: str
    node: str
    owner: str
    age: float
    times: int
    originals: list[str]


class _Document(msgspec.Struct):
    writer: str
    """Differs for each write, so that the API server records its time."""
    policies: dict[str, list[tuple[float, int]]]
    """Per policy, seconds before the write and the number of evictions then."""
    left: list[_Left] = []
    """Left out if it makes the object too large."""
    under_way: dict[str, int] = {}
    """Per policy, how many of those of age 0 may happen only now."""


Ages = Mapping[PolicyKey, Iterable[float]]
"""How long ago evictions happened (seconds), by policy."""


class Journal(NamedTuple):
    """What is stored; all times are ages, in seconds before the write.

    `under_way`: evictions that may happen after the write. `writer`: what it was written with.
    """

    ages: Ages
    left: Mapping[Place, Left] = {}
    under_way: Mapping[PolicyKey, int] = {}
    writer: str = ""


def encode(journal: Journal, *, exact: float) -> dict[str, str]:
    """Return evictions as a ConfigMap's data. Those older than `exact` seconds are divided by the minute, never made older.

    Raises JournalError if they are too many.
    """
    # An earlier version reads those under way as evictions of age 0.
    under_way = {str(key): count for key, count in journal.under_way.items()}
    ages = {str(key): [*found] for key, found in journal.ages.items()}
    for name, count in under_way.items():
        ages[name] = [*ages.get(name, ()), *[0.0] * count]
    policies = {name: _counted(found, exact) for name, found in sorted(ages.items())}
    left = [_Left(*one) for one in _listed(journal.left)]
    document = _Document(journal.writer, policies, left, under_way)
    text = msgspec.json.encode(document)
    if len(text) > _MOST_BYTES:
        document.left = []
        text = msgspec.json.encode(document)
    if len(text) > _MOST_BYTES:
        raise JournalError(f"the evictions of an hour take {len(text)} bytes")
    return {KEY: text.decode()}


def _listed(left: Mapping[Place, Left]) -> Iterator[tuple[str, str, str, float, int, list[str]]]:
    for place, one in sorted(left.items()):
        yield str(place.policy), place.node, place.owner, one.at, one.times, sorted(one.originals)


def decode(config_map: Mapping[str, Any]) -> Journal:
    """Return how long before the write evictions happened. Raises JournalError."""
    try:
        found = msgspec.json.decode(config_map["data"][KEY], type=_Document)
    except (*UNREADABLE, KeyError, TypeError) as error:
        raise JournalError(f"ConfigMap {NAME}: {error}"[:300]) from error
    if sum(max(0, count) for times in found.policies.values() for _, count in times) > _MOST_TIMES:
        raise JournalError(f"ConfigMap {NAME}: more than {_MOST_TIMES} evictions")
    ages, under_way = {}, {}
    for name, times in found.policies.items():
        if "/" in name:
            key = PolicyKey(*name.split("/", 1))
            every = sorted(max(0.0, age) for age, count in times for _ in range(count))
            under_way[key] = min(len(every), max(0, found.under_way.get(name, 0)))
            ages[key] = every[under_way[key] :]
    left = {
        Place(PolicyKey(*one.policy.split("/", 1)), one.node, one.owner): Left(
            frozenset(one.originals), max(0.0, one.age), max(1, one.times)
        )
        for one in found.left
        if "/" in one.policy
    }
    return Journal(ages, left, under_way, found.writer)


def elapsed(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Return the seconds between two writes of the ConfigMap, at least, by the API server's clock; 0 if it is not known."""
    first, then = _written(before), _written(after)
    return 0.0 if first is None or then is None else max(0.0, then - first - _RESOLUTION)


def _written(config_map: Mapping[str, Any]) -> float | None:
    fields = config_map.get("metadata", {}).get("managedFields") or ()
    times = [
        rfc3339.parse_or_none(one.get("time"))
        for one in fields
        if one.get("manager") == FIELD_MANAGER
    ]
    return max((at for at in times if at is not None), default=None)


def _counted(ages: Iterable[float], exact: float) -> list[tuple[float, int]]:
    counts: dict[float, int] = {}
    for age in ages:
        if age <= HOUR or age <= exact:
            # Younger than it is at most, so that it counts for as long as it has to.
            unit = 1.0 if age <= exact else _MINUTE
            rounded = age // unit * unit
            counts[rounded] = counts.get(rounded, 0) + 1
    return sorted(counts.items())


def body(namespace: str, data: Mapping[str, str], version: str = "") -> dict[str, Any]:
    """Return the ConfigMap to write; `version`: the resourceVersion of the one it replaces, empty to create it."""
    metadata = {"name": NAME, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, **({"resourceVersion": version} if version else {})},
        "data": dict(data),
    }
