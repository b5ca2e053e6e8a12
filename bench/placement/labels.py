"""The label loop: the evaluator labels nodes that violate deschedule, and descheduler evicts pods from them."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from evaluator.tools.closed_loop.kube_scheduler import Positions
from evaluator.tools.closed_loop.systems import Plimsoll
from evaluator.tools.closed_loop.workload import SimulatedPod

_INTERVAL = 120.0
"""Seconds between two runs of descheduler, as its chart's CronJob."""
_MOST_PER_NODE = 5
"""maxNoOfPodsToEvictPerNode of deploy/descheduler/policy.yaml."""


class LabelLoop(Plimsoll):
    """Plimsoll without --evict, and a model of descheduler with deploy/descheduler/policy.yaml.

    Pods have a required node affinity against the label: none is placed on a labelled node, and RemovePodsViolatingNodeAffinity
    evicts them from there, as long as another node has no label.
    """

    _due = _INTERVAL

    def permitted(self, pod: SimulatedPod, feasible: Positions, now: float) -> Positions:
        """Return the nodes without the label that the extender's filter does not reject."""
        feasible = super().permitted(pod, feasible, now)
        without = [node for node in feasible.tolist() if self._names[node] not in self.labelled]
        return np.array(without, dtype=np.intp)

    def evictions(self, now: float) -> Sequence[str]:
        """Return the pods that a run of descheduler evicts now."""
        self._decided(now)
        if now < self._due or len(self.labelled) == len(self._names):
            return ()
        self._due = now + _INTERVAL
        evicted: Counter[str] = Counter()
        found = []
        for name, pod in self._pods.items():
            node = pod.spec.node_name
            if node in self.labelled and evicted[node] < _MOST_PER_NODE:
                evicted[node] += 1
                found.append(name)
        return found
