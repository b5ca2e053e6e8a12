"""The history of this replica: what changed, when and why. In memory, and on pages."""

import time

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.pages import PagePart
from evaluator.core.wiring import Wired
from evaluator.features.history.history import History
from evaluator.features.history.live import Live
from evaluator.features.history.metrics import HistoryMetrics
from evaluator.features.history.options import HistoryOptions
from evaluator.features.history.page import HistoryReports, section
from evaluator.features.history.recorder import Recorder
from evaluator.features.history.series import Series

_SERIES = 0.375
"""Share of --historySize for series of readings; the rest is for records."""


def wire(core: Core, options: HistoryOptions) -> Wired:
    """Record on every replica what it decides and does; with --no-history, nothing."""
    metrics, started = HistoryMetrics(core.metrics.registry), time.time()
    of_series = int(_SERIES * options.history_size)
    history = History(options.history_size - of_series, options.history_age)
    series = Series(of_series)
    reports = HistoryReports(
        history if options.history else None,
        series,
        core.loop.newest,
        Live(history, core.loop.why_stopping),
        started=started,
        clock=time.time,
    )
    if not options.history:
        return Wired(page=PagePart(section=section(reports, shown=False)))
    recorder = Recorder(history, series, metrics)
    core.loop.followers.append(recorder.decided)
    core.journal.listeners.append(recorder.acted)
    page = PagePart(section=section(reports, shown=True), past=reports)
    return Wired(page=page, loops=[recorder.sample])


FEATURE = Feature(name="history", options=HistoryOptions, metrics=HistoryMetrics, wire=wire)
