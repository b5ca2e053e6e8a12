"""Memory of failures: scores of nodes in an annotation, as metrics, and flapping nodes that stay in violation."""

import time
from collections.abc import Iterator, Mapping
from functools import partial

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature, Written
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.types import Policy
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.wiring import Wired
from evaluator.core.writes.node_plan import NodeOperations, Removal
from evaluator.features.memory.annotations import MEMORY
from evaluator.features.memory.controller import MemoryController, MemoryMetrics
from evaluator.features.memory.readings import PREFIX, Held, Memories, WithScores, records
from evaluator.features.memory.scores import ANNOTATION
from evaluator.features.memory.summary import MemoryReport


class _Cluster:
    """What the memory reads of the cluster."""

    def __init__(self, core: Core) -> None:
        self._cluster = core.cluster
        self._loop: DecisionLoop = core.loop
        self.memories = Memories(self.policies)

    def policies(self) -> Mapping[PolicyKey, Policy]:
        """Return the policies of the cluster."""
        return self._cluster.policies.objects

    def nodes(self) -> int:
        """Return the number of nodes."""
        return len(self._cluster.nodes.objects)

    def changed(self, node: str) -> None:
        """A node's annotation changed, and with it perhaps the result of a rule."""
        if self.memories.changed(node, self._cluster.nodes.objects.get(node)):
            self._loop.touch()


def removals(_options: FeatureOptions, node: Node) -> Iterator[Removal]:
    """Yield the write that removes the annotation of a node, for the command `clean`."""
    if node.annotation(ANNOTATION):
        meta, path = node.metadata, ANNOTATION.replace("/", "~1")
        operations = (
            {"op": "test", "path": "/metadata/uid", "value": meta.uid},
            {"op": "remove", "path": f"/metadata/annotations/{path}"},
        )
        yield Removal(f"annotation {ANNOTATION}", NodeOperations(meta.name, operations))


def wire(core: Core, _options: FeatureOptions) -> Wired:
    """Read scores on every replica; write them while this one leads."""
    metrics = MemoryMetrics(core.metrics.registry)
    cluster = _Cluster(core)
    memories = cluster.memories
    epoch = time.time() - time.monotonic()
    core.loop.derive(partial(WithScores, memories=memories, epoch=epoch))
    core.loop.holds = Held(memories, epoch=epoch)
    controller = MemoryController(core.writes, memories, metrics, cause_of=core.causes.of)
    report = MemoryReport(memories, metrics.flapping_nodes, cluster.nodes)
    core.cluster.listeners.decisions.append(memories.policies_changed)
    core.cluster.listeners.annotations += [cluster.changed, controller.wake]
    core.connect(controller)
    core.loop.followers.append(report.show)
    return Wired(
        loops=[controller.run],
        policy_part=report.part,
        records=records,
        page=report.page(),
    )


FEATURE = Feature(
    name="memory",
    options=FeatureOptions,
    metrics=MemoryMetrics,
    wire=wire,
    written=Written(what=f"the annotation {ANNOTATION}", options=FeatureOptions, removals=removals),
    vocabulary=Vocabulary(actions=(MEMORY,), of_policies=(PREFIX,)),
)
