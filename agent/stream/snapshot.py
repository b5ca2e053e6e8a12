"""Reads the metrics for one stream: collected and recorded ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from agent.metric_names import possible, similar
from agent.rule_results import RuleResults
from agent.scrape.runner import CollectorRunner, Scrape
from agent.scrape.watcher import Watch
from agent.stream.selection import matching, select
from collectors.interface.sample import Family, NodeEvent, PermanentProblem
from plimsoll.metric_names import PREFIX, spellings
from plimsoll.text import NearNames
from wire.codec import MOST_NAMES, MOST_SIMILAR, Snapshot
from wire.failing_rules import FailingRule

_PATIENCE = 5.0  # seconds to wait for the first check of sources, one of which may hang


class SnapshotReader:
    """The reader of one stream. `read` blocks; one call at a time."""

    def __init__(
        self, collector_runner: CollectorRunner, recorded: RuleResults | None = None
    ) -> None:
        self._runner = collector_runner
        self._recorded = recorded
        self._watch: Watch | None = None
        self._on_change: Callable[[], None] = lambda: None
        self._own: frozenset[str] = (
            frozenset()
        )  # metrics that were collected the last time they could be read

    def open(self, on_change: Callable[[], None]) -> None:
        """Call `on_change`, in any thread, whenever a report should be sent immediately."""
        self._on_change = on_change
        self._watch = self._runner.watcher.subscribe(self._changed)

    def _changed(self) -> None:
        """A collector's source has changed, and rules may read it."""
        if self._recorded is not None:
            self._recorded.hurry()
        self._on_change()

    def want(self, metrics: Sequence[str]) -> None:
        """Subscribe to these metrics from now on."""
        if self._recorded is not None:
            self._recorded.subscribe(self, metrics, self._on_change)

    def close(self) -> None:
        """Unsubscribe from everything."""
        if self._watch is not None:
            self._runner.watcher.forget(self._watch)
            self._watch = None
        if self._recorded is not None:
            self._recorded.forget(self)

    def read(self, metrics: Sequence[str]) -> Snapshot:
        """Run the collectors that can yield these metrics, and return their snapshot."""
        if (watch := self._watch) is not None:
            watch.started.wait(_PATIENCE)
        scrape = self._runner.run(self._runner.serving(metrics))
        unread: set[str] = set()
        if scrape.failed:
            unread = {m for m in metrics if scrape.failed & self._runner.serving([m])}
        partly = self._partly(metrics, scrape) if scrape.partly else frozenset()
        collected = select(scrape.families, metrics, unread | partly, partly)
        if self._recorded is None:
            return self._completed(collected, scrape.families, metrics)
        # A recorded value must not replace an operator's file that cannot be read at the moment.
        held = collected.unread & self._own
        self._own = held.union(collected.values, collected.several)
        left = [metric for metric in metrics if metric not in self._own]
        self._recorded.sent(self)
        unknown = collected.unread | self._unknown(left)
        results = self._recorded.not_collected(scrape.families)
        recorded = select(results, left, unknown)
        found = Snapshot(
            {**collected.values, **recorded.values},
            {**collected.several, **recorded.several},
            recorded.unread | held,
            {**collected.causes, **recorded.causes},
        )
        return self._completed(found, (*scrape.families, *results), metrics)

    def _completed(
        self, found: Snapshot, families: Iterable[Family], metrics: Sequence[str]
    ) -> Snapshot:
        """Add readings of series whose names lack the prefix `node_` of a metric, and what the node never had."""
        left = _absent(found, metrics)
        if not left:
            return found
        found = _with_bare_names(found, families, left)
        never = frozenset(m for m in _absent(found, left) if self._never_had(possible(m)))
        return replace(found, never_had=never)

    def _never_had(self, series: Sequence[str]) -> bool:
        """Return whether the agent looks for a metric with one of these names, and the node has not had it since the start."""
        if any(map(self._runner.has_had, series)):
            return False
        lacks = None if self._recorded is None else self._recorded.lacks_input(series)
        return self._runner.looks_for(series) if lacks is None else lacks

    def similar(self, absent: Sequence[str]) -> dict[str, list[str]]:
        """Run all collectors, and return the names of series similar to each of the first absent metrics."""
        samples = (sample for family in self._all() for sample in family.samples)
        names = NearNames({sample.name.removeprefix(PREFIX) for sample in samples})
        return {metric: similar(metric, names, MOST_NAMES) for metric in absent[:MOST_SIMILAR]}

    def matching(self, patterns: Sequence[str]) -> list[str]:
        """Run all collectors, and return the names of metrics that match the patterns."""
        return matching(self._all(), patterns)

    def failing(self) -> Mapping[FailingRule, float]:
        """Return the recording rules that fail, with the seconds since when each does."""
        return self._recorded.failing() if self._recorded is not None else {}

    def problems(self) -> tuple[list[PermanentProblem], list[NodeEvent]]:
        """Return the conditions of the node, and the last event of each source and reason."""
        found = list(self._runner.finds_problems)
        conditions = [condition for finder in found for condition in finder.conditions()]
        return conditions, [event for finder in found for event in finder.events()]

    def acknowledge(self, times: Mapping[str, float]) -> None:
        """End problems that a person acknowledged."""
        for finder in self._runner.finds_problems:
            finder.acknowledge(times)

    def _partly(self, metrics: Sequence[str], scrape: Scrape) -> frozenset[str]:
        """Return those of the metrics that may lack samples, because collectors left out parts of their source."""
        return frozenset(
            metric
            for metric in metrics
            for collector in scrape.partly.keys() & self._runner.serving([metric])
            if not (named := scrape.partly[collector]) or not named.isdisjoint(possible(metric))
        )

    def _all(self) -> list[Family]:
        families = self._runner.run().families
        recorded = self._recorded.not_collected(families) if self._recorded is not None else ()
        return [*families, *recorded]

    def _unknown(self, metrics: Sequence[str]) -> frozenset[str]:
        """Return those of the metrics that rules record and whose value is unknown."""
        assert self._recorded is not None
        unread = frozenset(self._recorded.unread())
        return frozenset(m for m in metrics if not unread.isdisjoint(possible(m)))


def _absent(found: Snapshot, metrics: Iterable[str]) -> list[str]:
    return [
        m for m in metrics if not (m in found.values or m in found.several or m in found.unread)
    ]


def _with_bare_names(
    found: Snapshot, families: Iterable[Family], absent: Iterable[str]
) -> Snapshot:
    metrics = {name: metric for metric in absent for name in spellings(metric)[1:]}
    metrics = {name: metric for name, metric in metrics.items() if metric.startswith(PREFIX)}
    more = select(families, [*metrics]) if metrics else Snapshot()
    if not more.values and not more.several:
        return found
    return replace(
        found,
        values={**found.values, **{metrics[name]: value for name, value in more.values.items()}},
        several={**found.several, **{metrics[name]: count for name, count in more.several.items()}},
        causes={**found.causes, **{metrics[name]: text for name, text in more.causes.items()}},
    )
