"""Runs the collectors in parallel and reports success and duration of each; a slow or failing one does not affect the others."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from agent.metric_names import families_of, possible
from agent.scrape.skiplog import SkipLog
from agent.scrape.watcher import SourceWatcher
from collectors import registry
from collectors.interface import guard
from collectors.interface.guard import Skipped
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import (
    Closes,
    Collector,
    CollectorError,
    Deduplicates,
    Family,
    FindsProblems,
    Omission,
    Omits,
    SourceAbsentError,
    Watchable,
)
from plimsoll import durations, logs
from plimsoll.threads import BlockingCallRunner, Late

METRICS = Table(
    Metric(
        "node_scrape_collector_duration_seconds",
        "gauge",
        "node_exporter: Duration of a collector scrape.",
        "",
        ("collector",),
        "seconds",
    ),
    Metric(
        "node_scrape_collector_success",
        "gauge",
        "node_exporter: Whether a collector succeeded.",
        "",
        ("collector",),
    ),
    Metric(
        "node_scrape_collector_skipped_total",
        "counter",
        "Parts of a collector's source, such as a line or device, that it left out because they could not be read.",
        "",
        ("collector",),
        node_exporter=False,
    ),
)

log = logs.get(__name__)

_MOST_NAMES = 50_000
"""Names of families that are remembered; with more, any metric may have been there."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """The result of running collectors once."""

    families: tuple[Family, ...]
    """All families sorted by name, including success and duration of each collector."""
    failed: frozenset[str]
    """Collectors that could not read their source: their metrics are unknown, not absent."""
    absent: frozenset[str] = frozenset()
    """Collectors without a source on this machine: their metrics are absent."""
    partly: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Collectors that left out parts of their source, and the metrics that may lack samples; empty: any of the collector's."""

    @property
    def incomplete(self) -> frozenset[str]:
        """Return the collectors that could not read their source, or a part of it."""
        return self.failed.union(self.partly)


ScrapeMaker = Callable[[Iterable[Family]], Scrape]
"""Makes a scrape of the collected families and others, which take precedence over deduplicating collectors."""


class CollectorRun(NamedTuple):
    """The last run of a collector."""

    ended: float
    """Seconds of the runner's clock."""
    seconds: float
    error: str
    """Empty if it succeeded."""
    absent: bool
    """Whether this machine lacks its source."""
    skipped: tuple[Skipped, ...] = ()
    """What it left out."""


@dataclass(frozen=True, slots=True)
class _CollectorResult:
    families: tuple[Family, ...]
    run: CollectorRun


class CollectorRunner:
    """Runs the enabled collectors. Any thread may call any method at any time; none takes much longer than `timeout` seconds."""

    def __init__(
        self,
        collectors: Mapping[str, Collector],
        *,
        timeout: float = 5.0,
        poll_interval: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`poll_interval`: seconds between two checks for changed sources, while there are subscribers."""
        self._collectors = dict(collectors)
        self._timeout = timeout
        self._clock = clock
        self._calls = {
            name: partial(self._collect, name, collector) for name, collector in collectors.items()
        }
        self._runner = BlockingCallRunner[str, _CollectorResult](timeout, name="collectors")
        watchable = {name: c for name, c in collectors.items() if isinstance(c, Watchable)}
        self.watcher = SourceWatcher(watchable, poll_interval)
        """Reports changed sources of collectors that can be watched."""
        self._deduplicating = {n: c for n, c in collectors.items() if isinstance(c, Deduplicates)}
        self._errors: dict[str, str] = {}
        self._runs: dict[str, CollectorRun] = {}
        self._lock = Lock()
        self._clashes: frozenset[str] = frozenset()
        self._had: set[str] = set()
        """The names of families with samples since the start."""
        self._skips = SkipLog(collectors)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the enabled collectors."""
        return tuple(self._collectors)

    @property
    def now(self) -> float:
        """Seconds of the clock of `runs`."""
        return self._clock()

    @property
    def runs(self) -> Mapping[str, CollectorRun]:
        """The last run of each collector that has run, for a scrape or for rules."""
        return dict(self._runs)

    def omissions(self) -> Iterator[Omission]:
        """Yield what collectors omitted of their sources, such as text files with errors."""
        for collector in self._collectors.values():
            if isinstance(collector, Omits):
                yield from collector.omissions()

    @property
    def finds_problems(self) -> Iterator[FindsProblems]:
        """The collectors that find problems of the node."""
        return (c for c in self._collectors.values() if isinstance(c, FindsProblems))

    def run(self, names: Collection[str] | None = None, *, beside: Iterable[Family] = ()) -> Scrape:
        """Run some collectors, or all. Blocks until each has returned or exceeded the timeout. Raises StoppedError after close().

        `beside`: other families of the same scrape; deduplicating collectors omit their series too.
        """
        return self._make_scrape(self._runner.run(self._chosen(names)), beside)

    def start(
        self, names: Collection[str] | None, then: Callable[[ScrapeMaker], None]
    ) -> Callable[[], None]:
        """Start a `run` without blocking: `then` is called in a collector thread with a function that makes the scrape.

        Returns a function to call every `moment` seconds until then; it gives up collectors that exceed the timeout.
        """
        return self._runner.start(
            self._chosen(names), lambda results: then(partial(self._make_scrape, results))
        )

    @property
    def moment(self) -> float:
        """Seconds between two calls of what `start` returns."""
        return self._runner.moment

    def _chosen(
        self, names: Collection[str] | None
    ) -> Mapping[str, Callable[[], _CollectorResult]]:
        if names is None:
            return self._calls
        return {name: call for name, call in self._calls.items() if name in names}

    def _make_scrape(
        self, raw: Mapping[str, _CollectorResult | Late], beside: Iterable[Family]
    ) -> Scrape:
        results = {name: self._judge(name, result) for name, result in raw.items()}
        hosts = [o.families for name, o in results.items() if name not in self._deduplicating]
        found, clashes = combine([beside, _accounts(results, self._skips), *hosts])
        for name in self._deduplicating.keys() & results.keys():
            unique = self._deduplicating[name].without_duplicates(results[name].families, found)
            found, more = combine([unique], found)
            clashes |= more
        for clash in sorted(clashes - self._clashes):
            log.warning("two collectors export the same series; keeping the first", metric=clash)
        self._clashes |= clashes
        if len(self._had) <= _MOST_NAMES:
            self._had.update([name for name in found.keys() - self._had if found[name].samples])
        return Scrape(
            tuple(family for _, family in sorted(found.items())),
            frozenset(
                n for n, judged in results.items() if judged.run.error and not judged.run.absent
            ),
            frozenset(n for n, judged in results.items() if judged.run.absent),
            {n: _unread(judged.run.skipped) for n, judged in results.items() if judged.run.skipped},
        )

    def read(self, names: Collection[str]) -> tuple[Family, ...]:
        """Run collectors and return their families."""
        return self.run(names).families

    def serving(self, metrics: Collection[str]) -> frozenset[str]:
        """Return the enabled collectors that can yield one of these metrics, with or without the prefix `node_`."""
        names = {name for metric in metrics for name in possible(metric)}
        named = frozenset[str]().union(*map(registry.collectors_of, names))
        return named & self._collectors.keys()

    def has_had(self, series: str) -> bool:
        """Return whether a collector has yielded this series since the start, or may have."""
        return len(self._had) > _MOST_NAMES or not self._had.isdisjoint(families_of(series))

    def looks_for(self, series: Iterable[str]) -> bool:
        """Return whether the enabled collectors include all that may yield a series of one of these names on this machine.

        A file with an error may have any series. If a collector's table names one, files are not expected to have it.
        """
        names = {name for one in series for name in families_of(one)}
        serving = frozenset[str]().union(*map(registry.collectors_of, names))
        tables = {name for name in serving if not registry.COLLECTORS[name].open_ended}
        if tables:
            return tables <= self._collectors.keys()
        found = [self._collectors[name] for name in serving & self._collectors.keys()]
        return any(map(_can_yield, found)) and not any(map(_omits, found))

    def close(self) -> None:
        """Stop waiting for collectors; threads of hanging ones are abandoned."""
        self._runner.close()
        for collector in self._collectors.values():
            if isinstance(collector, Closes):
                collector.close()

    def _collect(self, name: str, collector: Collector) -> _CollectorResult:
        begin, skipped = self._clock(), guard.begin()
        families: tuple[Family, ...] = ()
        error, absent = "", False
        try:
            families = tuple(collector.collect())
        except SourceAbsentError as reason:
            error, absent = str(reason) or "absent", True
        except CollectorError as reason:
            error = str(reason) or "failed"
        except Exception as reason:
            error = f"{type(reason).__name__}: {reason}"
            if self._errors.get(name) != error:
                log.exception("collector raised an unexpected exception", collector=name)
                self._errors[name] = error
        if skipped and not error and not any(family.samples for family in families):
            families, error = (), skipped[0].reason
        end = self._clock()
        return _CollectorResult(
            families, CollectorRun(end, end - begin, error, absent, tuple(skipped))
        )

    def _judge(self, name: str, result: _CollectorResult | Late) -> _CollectorResult:
        if isinstance(result, Late):
            error = f"has not returned for {durations.format_duration(self._timeout)}"
            run = CollectorRun(self._clock(), result.seconds, error, absent=False)
            result = _CollectorResult((), run)
        self._runs[name] = run = result.run
        if run.skipped:
            self._skips.note(name, run.skipped, run.ended)
        if run.error != self._errors.get(name, ""):
            with self._lock:
                self._report(name, run)
        return result

    def _report(self, name: str, result: CollectorRun) -> None:
        """Log a line when a collector begins to fail, fails differently, or recovers."""
        before = self._errors.get(name, "")
        self._errors[name] = result.error
        if result.error == before:
            return
        if result.absent:
            log.debug(
                "collector has no source on this machine", collector=name, reason=result.error
            )
        elif result.error:
            log.error("collector failed", collector=name, reason=result.error)
        else:
            log.info("collector works again", collector=name)


def _can_yield(collector: Collector) -> bool:
    """Return whether an open-ended collector can yield anything: one without files cannot."""
    return not isinstance(collector, Watchable) or collector.fingerprint() is not None


def _omits(collector: Collector) -> bool:
    """Return whether a collector omitted a part of its source."""
    return isinstance(collector, Omits) and bool([*collector.omissions()])


def _unread(skipped: Iterable[Skipped]) -> frozenset[str]:
    """Return the metrics that may lack samples; empty: any of the collector's."""
    metrics = [part.metrics for part in skipped]
    return frozenset().union(*metrics) if all(metrics) else frozenset()


def combine(
    parts: Iterable[Iterable[Family]], before: Mapping[str, Family] = MappingProxyType({})
) -> tuple[dict[str, Family], frozenset[str]]:
    """Return families by name, with those combined `before`, and the names with conflicting series, of which the first ones count."""
    combined = dict(before)
    clashes: set[str] = set()
    for families in parts:
        for family in families:
            known = combined.get(family.name)
            if known is None:
                combined[family.name] = family
                continue
            taken = {(sample.name, sample.labels) for sample in known.samples}
            fresh = tuple(s for s in family.samples if (s.name, s.labels) not in taken)
            if known.type != family.type:
                fresh = ()
            if len(fresh) < len(family.samples):
                clashes.add(family.name)
            combined[family.name] = replace(known, samples=known.samples + fresh)
    return combined, frozenset(clashes)


def _succeeded(name: str, run: CollectorRun) -> bool:
    """Return whether a run counts as a success: an absent source is no failure of collectors that are optional."""
    entry = registry.COLLECTORS.get(name)
    return not run.error or (run.absent and entry is not None and entry.optional)


def _accounts(results: Mapping[str, _CollectorResult], skips: SkipLog) -> tuple[Family, ...]:
    items = sorted(results.items())
    return (
        METRICS.family(
            "node_scrape_collector_duration_seconds",
            (((name,), round(result.run.seconds, 9)) for name, result in items),
        ),
        skips.family(tuple([n for n, result in items if not result.run.absent]), METRICS),
        METRICS.family(
            "node_scrape_collector_success",
            (((name,), float(_succeeded(name, result.run))) for name, result in items),
        ),
    )
