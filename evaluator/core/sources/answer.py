"""The result of polling a source for a metric: readings by node, or an error; and which node a series is of."""

import email.utils
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.node import Node
from evaluator.core.readings.column import Reading
from plimsoll.recording.series import host
from plimsoll.text import SentenceError


class SourceError(SentenceError):
    """A poll failed. The message is constant for its cause; `reason` is one word for a counter."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PolledAnswer:
    """Readings by node name; `flaws`: errors in parts of the response, as sentences."""

    readings: Mapping[str, Reading]
    flaws: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasurementTime:
    """One moment on two clocks: `here` in seconds of the store's clock, `there` in the server's Unix time.

    Both are taken when the response arrived, so that ages are correct although the clocks differ.
    """

    here: float
    there: float

    def translate(self, stamp: float) -> float:
        """Return a server's timestamp in the store's time; future timestamps count as now."""
        return self.here - max(0.0, self.there - stamp)


def moment(date: str, *, here: float, wall: float) -> MeasurementTime:
    """Return the current moment by the response's Date header; without one, by our own wall clock."""
    try:
        return MeasurementTime(here, email.utils.parsedate_to_datetime(date).timestamp())
    except (ValueError, OverflowError):  # OverflowError: years or zones out of range
        return MeasurementTime(here, wall)


def reading(samples: Sequence[tuple[float, float]]) -> Reading:
    """Return a node's reading from its (value, time) pairs; several give their number and the oldest time."""
    at = min(time for _, time in samples)
    value = samples[0][0] if len(samples) == 1 else float("nan")
    return Reading(len(samples), value, at)


_HOSTNAME = "kubernetes.io/hostname"
_OTHER_NAMES = {"InternalIP", "Hostname"}


class NodeNames:
    """Names and addresses of the cluster's nodes, in lower case. One that two nodes share is ambiguous and ignored."""

    def __init__(self, nodes: Iterable[Node], label: str, guard: Guard = UNGUARDED) -> None:
        """`guard` takes what one node raises: it is known by its name only."""
        self._label = label
        names = {node.metadata.name: node for node in nodes}
        self._known: dict[str, str | None] = {}
        none: Set[str] = frozenset()
        for name, node in names.items():
            for alias in guard.run(name, partial(_aliases, node), none):
                shared = self._known.get(alias, name) != name
                self._known[alias] = None if shared else name
        self._known |= {name.lower(): name for name in names}

    def node(self, labels: Mapping[str, str]) -> str | None:
        """Return the node of a series with these labels; None if there is none.

        If the label names something else, `instance` is not used: a series about one node is often scraped from a pod
        on another.
        """
        if named := labels.get(self._label):
            return self._known.get(named.lower())
        instance = labels.get("instance", "").lower()
        return self._known.get(instance) or self._known.get(host(instance))


def named(labels: Mapping[str, str], label: str) -> str | None:
    """Return the node that labels name where the cluster's nodes are not known: by `label`, else the host of `instance`."""
    return labels.get(label) or host(labels.get("instance", "")) or None


def _aliases(node: Node) -> Set[str]:
    found = {
        address.address.lower()
        for address in node.status.addresses or ()
        if address.type in _OTHER_NAMES and address.address
    }
    if hostname := (node.metadata.labels or {}).get(_HOSTNAME):
        found.add(hostname.lower())
    return found
