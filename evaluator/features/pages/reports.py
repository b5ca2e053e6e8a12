"""All reports of an evaluator."""

from evaluator.features.gangs.page import GangReports
from evaluator.features.pages.nodes import NodeReports
from evaluator.features.pages.pods import PodReports
from evaluator.features.pages.policies import PolicyReports
from evaluator.features.pages.sources import PageSources
from plimsoll.fairlock import FairLock

_WAITING = 9
"""Clients that may wait while a page is built: ten browsers that refresh at once are all answered."""


class Reports:
    """All reports of an evaluator, built one at a time: `building` is held until a page is written."""

    def __init__(self, sources: PageSources) -> None:
        self.policies = PolicyReports(sources)
        self.nodes = NodeReports(sources)
        self.pods = PodReports(sources)
        self.gangs = GangReports(sources.gang_explainer)
        self.has_gangs = sources.gang_explainer is not None
        self.building = FairLock(_WAITING)
