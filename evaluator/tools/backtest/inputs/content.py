"""The samples of files in parts, however they are stored."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evaluator.core.model.node_index import NodeIndex
from evaluator.tools.replay.run import Resources
from evaluator.tools.replay.samples import Samples

Metrics = Mapping[str, Samples]
Part = tuple[float, Callable[[], Metrics]]
"""The end of a part (Unix seconds, included), and a function that reads its samples; it may raise BacktestError."""


class Sample(NamedTuple):
    """When a sample was taken (Unix seconds), and its series as text."""

    time: float
    series: str

    def __str__(self) -> str:
        return f"{self.series} at {self.time:.15g}"


@dataclass(frozen=True)
class Content:
    """What files contain. `parts` yields consecutive parts."""

    first: Sample
    last: Sample
    nodes: NodeIndex
    allocatable: Resources
    parts: Callable[[], Iterator[Part]]
    close: Callable[[], None] = lambda: None
    """Deletes temporary files."""
