"""Pages to which other features add: fields, sections, and parts of pages."""

from types import SimpleNamespace

import pytest

from evaluator.core.metrics import Metrics
from evaluator.features.gangs.feature import NO_GANGS
from evaluator.features.gangs.feature import Shown as GangsShown
from evaluator.features.node_actions.feature import Shown
from evaluator.features.node_actions.planner import NodeActionMetrics, NodeActionPlanner
from evaluator.features.node_actions.types import ActionSettings
from evaluator.features.scorers.feature import NO_SCORERS
from tests.evaluator.features.pages.conftest import PagesOfPolicies, demo  # noqa: F401  a fixture


def pages_of_features(*, gang_explainer=None, **sources):
    """Return the pages of an evaluator with gangs, if explained, node actions, and no scorer."""
    gangs = GangsShown(gang_explainer).page() if gang_explainer else NO_GANGS
    pages = PagesOfPolicies(parts=[NO_SCORERS, gangs], **sources)
    metrics = NodeActionMetrics(Metrics().registry)
    planner = NodeActionPlanner(pages.cluster, pages.decider, metrics, ActionSettings())
    idle = SimpleNamespace(undone=tuple)  # writers that nobody undoes
    pages.parts.insert(0, Shown(planner, idle, idle).page())
    return pages


@pytest.fixture
def pages():
    return pages_of_features()
