"""The samples of files in parts, however they are stored."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from evaluator.core.model.node_index import NodeIndex
from evaluator.tools.replay.run import Resources
from evaluator.tools.replay.samples import Samples

Metrics = Mapping[str, Samples]
Part = tuple[float, Callable[[], Metrics]]
"""The end of a part (Unix seconds, included), and a function that reads its samples; it may raise BacktestError."""


@dataclass(frozen=True)
class Content:
    """What files contain. `first`, `last`: times of samples (Unix seconds). `parts` yields consecutive parts."""

    first: float
    last: float
    nodes: NodeIndex
    allocatable: Resources
    parts: Callable[[], Iterator[Part]]
    close: Callable[[], None] = lambda: None
    """Deletes temporary files."""
