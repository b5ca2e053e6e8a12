"""What pods of a policy were seen to add to a metric: the increase of a node's reading over the binding of pods.

A trial begins when a pod is bound to a node: it keeps the reading before. It ends with the first reading whose window lies
after the last binding. Other pods of the node change their use meanwhile, so one trial says little; the weighted median of
the last ones does. A trial is dropped if a pod left the node, or if pods of several policies came.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from evaluator.core.model.names import PolicyKey

SETTLED = 5.0
"""Seconds after the window of a metric in which a bound pod starts."""
LEAST_TRIALS = 5
"""Trials before an estimate is used."""
_KEPT_TRIALS = 64
_MOST_TRIALS = 20_000
"""Trials at once: nodes times metrics."""
_LONGEST = 3.0
"""Windows after which a trial is dropped if pods keep coming."""


class Added(NamedTuple):
    """What one pod of a policy adds to a metric, in units of the metric, times allocatable if that is a share of it.

    `per_request`: per requested unit of the resource that the metric measures; NaN if pods request none. `trials`: their number.
    """

    per_pod: float
    per_request: float
    trials: int


class NodeReading(NamedTuple):
    """A usable reading; `scale`: the node's allocatable amount if the metric is a share of it, else 1."""

    value: float
    at: float
    scale: float = 1.0


@dataclass(slots=True)
class _Trial:
    """Pods bound to one node since a reading, for one metric."""

    policy: PolicyKey
    before: float
    begun: float
    last: float
    pods: int = 0
    requested: float = 0.0


@dataclass(slots=True)
class _Samples:
    """The last trials of a policy and metric: increase and number of pods; increase and requested amount."""

    per_pod: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_KEPT_TRIALS))
    per_request: deque[tuple[float, float]] = field(
        default_factory=lambda: deque(maxlen=_KEPT_TRIALS)
    )

    def added(self) -> Added:
        return Added(
            _weighted_median(self.per_pod), _weighted_median(self.per_request), len(self.per_pod)
        )


Read = Callable[[str, str], NodeReading | None]
"""Returns the reading of a metric (first) of a node (second); None if it is not usable."""


class Learned:
    """Estimates by policy and metric. `version` increases when one changes."""

    def __init__(self) -> None:
        self.version = 0
        self._trials: dict[tuple[str, str], _Trial] = {}
        self._samples: dict[tuple[PolicyKey, str], _Samples] = {}
        self._known: dict[tuple[PolicyKey, str], Added] = {}

    @property
    def waiting(self) -> bool:
        """Whether a trial waits for a reading."""
        return bool(self._trials)

    def added_per_pod(self, policy: PolicyKey, metric: str) -> Added | None:
        """Return what a pod of a policy adds to a metric; None until enough trials have ended."""
        return self._known.get((policy, metric))

    def known(self) -> int:
        """Return the number of estimates."""
        return len(self._known)

    def all(self) -> Mapping[tuple[PolicyKey, str], Added]:
        """Return all estimates."""
        return self._known

    def bound(
        self,
        policy: PolicyKey,
        node: str,
        metric: str,
        requested: float,
        reading: NodeReading | None,
        now: float,
    ) -> None:
        """A pod was bound to a node; `reading`: the last one before."""
        key = (metric, node)
        trial = self._trials.get(key)
        if trial is None:
            if reading is None or len(self._trials) >= _MOST_TRIALS:
                return
            trial = self._trials[key] = _Trial(policy, reading.value, now, now)
        if trial.policy != policy:
            trial.pods = -1  # keeps the node busy until the pods that came are in the readings
        trial.last = now
        if trial.pods >= 0:
            trial.pods += 1
            trial.requested += requested

    def left(self, node: str, metrics: Iterable[str]) -> None:
        """A pod left a node: its trials say nothing any more."""
        for metric in metrics:
            trial = self._trials.get((metric, node))
            if trial is not None:
                trial.pods = -1

    def read(self, window_of: Callable[[str], float], read: Read, now: float) -> Iterator[None]:
        """End the trials whose pods the readings include, in steps."""
        for number, (key, trial) in enumerate(list(self._trials.items()), start=1):
            if number % _STEP == 0:
                yield
            metric, node = key
            settled = window_of(metric) + SETTLED
            if now < trial.last + settled and now - trial.begun < _LONGEST * settled:
                continue
            reading = read(metric, node)
            if reading is not None and reading.at >= trial.last + settled:
                self._end(metric, trial, reading)
            elif now - trial.begun < _LONGEST * settled:
                continue
            self._trials.pop(key, None)

    def keep(self, used: Mapping[PolicyKey, frozenset[str]]) -> None:
        """Drop what was learned of policies that are gone, and of metrics that they no longer use."""
        for policy, metric in [key for key in self._samples if key[1] not in used.get(key[0], ())]:
            del self._samples[policy, metric]
            if self._known.pop((policy, metric), None) is not None:
                self.version += 1

    def _end(self, metric: str, trial: _Trial, reading: NodeReading) -> None:
        if trial.pods <= 0:
            return
        increase = (reading.value - trial.before) * reading.scale
        if not math.isfinite(increase):
            return
        samples = self._samples.setdefault((trial.policy, metric), _Samples())
        samples.per_pod.append((increase / trial.pods, float(trial.pods)))
        if trial.requested > 0.0:
            samples.per_request.append((increase / trial.requested, trial.requested))
        if len(samples.per_pod) >= LEAST_TRIALS:
            self._known[trial.policy, metric] = samples.added()
            self.version += 1


_STEP = 500
"""Trials looked at per step: well below a millisecond."""


def _weighted_median(samples: deque[tuple[float, float]]) -> float:
    """Return the value with half of the weight below it; NaN without enough samples."""
    if len(samples) < LEAST_TRIALS:
        return np.nan
    total = sum(weight for _, weight in samples)
    below = 0.0
    for value, weight in sorted(samples):
        below += weight
        if below >= total / 2:
            return value
    return np.nan
