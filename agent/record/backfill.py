"""Evaluates recording rules over recorded samples with the agent's rule engine, node by node."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent.record import text as recorded
from agent.rules.groups import dependencies
from agent.rules.groups.file import Group
from agent.rules.groups.group import RunningGroup
from agent.rules.groups.tick import Tick, TickResult, by_metric
from agent.rules.promql.labels import NAME, Labels
from agent.rules.storage.shared_head import SharedHead
from collectors.interface.sample import Family, Sample
from plimsoll.recording import text

_OF_SCRAPE = {text.NODE, "instance", "job"}
"""Labels that an agent's own samples do not have."""
_STEP = 60_000
"""Default step of subqueries (ms)."""

Samples = Iterable[tuple[Labels, int | None, float]]
"""Label sets with the name, times in ms, values."""


def backfill(samples: Samples, groups: Sequence[Group], every: int) -> Iterator[bytes]:
    """Yield the results of rules as OpenMetrics lines. `every`: ms between two evaluations.

    A node is the label `node`, else the host of `instance`. Samples count at the first evaluation after them.
    """
    by_node: dict[str, dict[int, dict[tuple[str, Labels], float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for labels, time, value in samples:
        own = dict(labels)
        node = own.get(text.NODE) or own.get("instance", "").rpartition(":")[0]
        if time is not None and node:
            pairs = tuple(_own(own))
            by_node[node][-(-time // every) * every][own[NAME], pairs] = value
    for node, ticks in sorted(by_node.items()):
        yield from _node(node, ticks, groups)


def _own(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the labels as the agent has them; `exported_node` is its own label `node`."""
    for name, value in labels.items():
        if name != NAME and name not in _OF_SCRAPE:
            yield text.NODE if name == "exported_node" else name, value


def _node(
    node: str, ticks: Mapping[int, Mapping[tuple[str, Labels], float]], groups: Sequence[Group]
) -> Iterator[bytes]:
    shared = SharedHead()
    running = [
        RunningGroup(group, lambda _needs: frozenset(), shared)
        for group in dependencies.ordered(groups)
    ]
    for now in sorted(ticks):
        samples_by_metric: dict[str, list[Sample]] = {}
        for (name, labels), value in ticks[now].items():
            samples_by_metric.setdefault(name, []).append(Sample(name, labels, value))
        families = by_metric(
            Family(name, "untyped", "", tuple(own)) for name, own in samples_by_metric.items()
        )
        results: list[TickResult] = []
        for group in running:
            tick = Tick(now, 0, _STEP, families, families.keys(), frozenset(), results)
            results.append(group.tick(tick))
        yield recorded.lines(_families(results), node, now / 1000)


def _families(results: Iterable[TickResult]) -> Iterator[Family]:
    for result in results:
        for metric, vector in result.results.items():
            samples = tuple(
                Sample(metric, tuple(pair for pair in labels if pair[0] != NAME), value)
                for labels, value in vector
            )
            yield Family(metric, "untyped", "", samples)
