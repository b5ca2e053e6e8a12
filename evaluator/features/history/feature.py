"""The history of this replica: what changed, when and why. In memory, and on pages."""

import time

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.pages import PagePart
from evaluator.core.wiring import Wired
from evaluator.features.history.history import History
from evaluator.features.history.metrics import HistoryMetrics
from evaluator.features.history.options import HistoryOptions
from evaluator.features.history.page import HistoryReports, section
from evaluator.features.history.recorder import Recorder


def wire(core: Core, options: HistoryOptions) -> Wired:
    """Record on every replica what it decides and does; with --no-history, nothing."""
    metrics, started = HistoryMetrics(core.metrics.registry), time.time()
    history = History(options.history_size, options.history_age) if options.history else None
    if history is not None:
        recorder = Recorder(history, metrics)
        core.loop.followers.append(recorder.decided)
        core.journal.listeners.append(recorder.acted)
    reports = HistoryReports(history, core.loop.newest, started=started, clock=time.time)
    page = PagePart(
        section=section(reports, shown=options.history), past=reports if options.history else None
    )
    return Wired(page=page)


FEATURE = Feature(name="history", options=HistoryOptions, metrics=HistoryMetrics, wire=wire)
