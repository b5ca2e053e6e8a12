"""A scorer with numbers that are easy to compute, for tests that use any scorer."""

from evaluator.core.model.resources import Resource
from evaluator.features.scorers.plugin import ScorerResult


class Share:
    """The risk is the requested share of CPU, including the pod; memory is unknown."""

    predicates = ()
    priorities = ()
    metrics = ("used",)

    def __init__(self):
        self.asked = 0

    def score(self, view, pod):
        self.asked += 1
        cpu = Resource.CPU
        asked = view.requested[cpu] + pod.requests.get(cpu, 0.0)
        risk = asked / view.allocatable[cpu]
        return ScorerResult(facts={"cpu.risk": risk, "memory.risk": view.unknown})
