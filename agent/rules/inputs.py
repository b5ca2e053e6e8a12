"""Reads the samples for an evaluation: runs the collectors that the due groups need, once for all of them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from agent.rules.groups import dependencies
from agent.rules.groups.file import SHORTEST, Group
from agent.rules.groups.tick import TickInputs, by_metric
from agent.rules.promql.plan import Need
from agent.scrape import runner
from agent.scrape.runner import CollectorRunner
from collectors import registry
from collectors.interface.sample import Family
from collectors.registry import COLLECTORS

_ACCOUNTS = frozenset(metric.name for metric in runner.METRICS)
_REUSE = 5_000
"""Milliseconds for which samples of slow collectors are reused."""
_MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class _Slow:
    """Samples of slow collectors."""

    time: int
    collectors: frozenset[str]
    families: tuple[Family, ...]
    failed: frozenset[str]


class RuleInputs:
    """The collectors as sources of rules. Times are ms of the samples' clock; `read` is for one thread at a time."""

    def __init__(self, collector_runner: CollectorRunner) -> None:
        self._runner = collector_runner
        self._slow = _Slow(0, frozenset(), (), frozenset())

    def collectors(self, needed: Iterable[Need]) -> frozenset[str]:
        """Return the collectors to run for these series."""
        return dependencies.collectors(needed, self._runner.serving, self._runner.names, _ACCOUNTS)

    def never_had(self, series: str, *, recorded: bool) -> bool:
        """Return whether no collector yielded a series since the start, although they look for it or a rule records it."""
        return not self._runner.has_had(series) and (recorded or self._runner.looks_for([series]))

    def interval(self, group: Group, recorded: Collection[str]) -> int:
        """Return how often (ms) rules that a subscriber uses are evaluated.

        Every other second if no collected value is used as it is: over a minute, rates change little within a second, and
        slow collectors are read less often anyway.
        """
        quick = (
            need.reach < _MINUTE
            and need.selector.metric not in recorded
            and not self._is_slow(need)
            for need in dependencies.needs(group)
        )
        return SHORTEST if any(quick) else 2 * SHORTEST

    def _is_slow(self, need: Need) -> bool:
        collectors = self.collectors([need])
        closed = {name for name in collectors if not COLLECTORS[name].open_ended}
        return bool(closed) and closed <= registry.slow(closed)

    def read(
        self, collectors: Collection[str], time: int, epoch: int, *, reuse: bool = False
    ) -> TickInputs:
        """Run collectors. `reuse`: recent samples of slow ones suffice."""
        slow = registry.slow(collectors)
        if not slow:
            scrape = self._runner.run(collectors)
            return TickInputs(time, epoch, by_metric(scrape.families), scrape.incomplete)
        before = self._slow
        if not (reuse and slow <= before.collectors and time - before.time < _REUSE):
            scrape = self._runner.run(slow)
            before = self._slow = _Slow(time, slow, scrape.families, scrape.incomplete)
        scrape = self._runner.run(frozenset(collectors) - slow, beside=before.families)
        failed = scrape.incomplete | before.failed
        return TickInputs(time, epoch, by_metric(scrape.families), failed)
