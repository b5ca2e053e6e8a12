"""Instant selectors: current values of series from the storage, and their timestamps."""

from collections.abc import Callable

from agent.rules.promql.plan import Instant, Need, Scope
from agent.rules.promql.syntax.selectors import Selection
from agent.rules.promql.values import LOOKBACK, Moment, Vector


def selected(selection: Selection, scope: Scope) -> Instant:
    """Return a part with the current value of each series that a selector matches."""
    selector, offset = selection.selector, selection.offset
    moved = scope.reach or offset or scope.times > 1
    reach = max(0, scope.reach + offset + LOOKBACK) if moved else 0
    scope.needs.append(Need(selector, reach))

    def plan(moment: Moment) -> Vector:
        time = moment.time - offset
        after = time - LOOKBACK - 1  # a sample of exactly that age still counts
        samples: Vector = []
        for series in moment.storage.select(selector):
            sample = series.at(time, after)
            if sample is not None:
                samples.append((series.labels, sample[1]))
        return samples

    return Instant(plan, selection)


def sampled(selection: Selection) -> Callable[[Moment], Vector]:
    """Return a plan with the timestamp of each series' current value, in Unix seconds."""
    selector, offset = selection.selector, selection.offset

    def plan(moment: Moment) -> Vector:
        time, epoch = moment.time - offset, moment.epoch
        after = time - LOOKBACK - 1
        timestamps: Vector = []
        for series in moment.storage.select(selector):
            sample = series.at(time, after)
            if sample is not None:
                timestamps.append((series.labels, (sample[0] + epoch) / 1000))
        return timestamps

    return plan
