"""A cause that an agent reports belongs to the reading of that agent, and to no other source's."""

import pytest

from evaluator.core.readings.merged import AGENTS, PROMETHEUS
from evaluator.core.readings.reported import NodeCauses
from evaluator.core.sources.options import CUSTOM_METRICS


@pytest.mark.parametrize(
    ("source", "cause"),
    [("", "gpu: UUID=GPU-1"), (AGENTS, "gpu: UUID=GPU-1"), (PROMETHEUS, ""), (CUSTOM_METRICS, "")],
)
def test_only_readings_of_agents_have_a_cause(source: str, cause: str) -> None:
    causes = NodeCauses()
    causes.report("node-a", {"health": "gpu: UUID=GPU-1"})
    assert causes.of("health", "node-a", source) == cause
    assert not causes.of("health", "node-b", source)
    causes.report("node-a", {})
    assert not causes.of("health", "node-a", source)
