"""Writes an Event on the node for what policies did to it or to its pods: `kubectl describe node` shows them."""

from evaluator.core.kube.node_events import NodeEventWriter
from evaluator.core.kube.waiting_events import NodeEvent
from evaluator.core.signals import Acted


class ActionEvents:
    """Writes an Event for each action with a notice; those of one reason on one node are counted in one Event."""

    def __init__(self, writer: NodeEventWriter) -> None:
        self._writer = writer

    def acted(self, action: Acted) -> None:
        """Write an Event soon."""
        if (notice := action.notice) is not None:
            self._writer.want(action.node, NodeEvent("policies", notice.reason, notice.message))

    async def run(self) -> None:
        """Write until cancelled."""
        await self._writer.run()
