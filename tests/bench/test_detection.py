"""bench/detection: what is planted is labelled, and the memory of Titan's GPUs is counted as documented."""

import math

import numpy as np
import pytest

from bench.detection import planting, series
from bench.detection.memory import HALF_LIFE, Service, saved
from bench.placement.model import GENERATED, traces

DAY = 86_400.0


def test_planted_faults_are_labelled_and_the_group_change_is_not():
    rng = np.random.default_rng(1)
    fleet = series.fleet(traces(GENERATED), 200, 3, rng)
    planted = planting.planted(fleet, 3, rng)
    assert {kind: len(own) for kind, own in planted.by_kind.items()} == dict.fromkeys(
        planting.KINDS, 1
    )
    labelled = np.zeros(planted.slower.shape, bool)
    for fault in planted.labels:
        rows = slice(int(fault.start / series.STEP), int(fault.end / series.STEP))
        labelled[rows, int(fault.node.removeprefix("node-"))] = True
    assert np.isin(planted.slower[~labelled], [1.0, planting.GROUP_CHANGE]).all()
    assert (planted.slower[labelled] > 1).mean() > 0.8
    for metric in series.metrics(fleet, planted.slower, rng):
        assert metric.values.shape == fleet.load.shape


@pytest.mark.parametrize(
    ("threshold", "avoided", "days"),
    [
        (0.0, 2, 100 + 400),  # from the first failure on
        (0.5, 1, 30),  # a half-life after the first failure; the third failure comes too late
        (1.0, 0, 30 * math.log2(1 + 2 ** (-20 / 30))),  # two failures in 20 days
        (math.inf, 0, 0),
    ],
)
def test_time_without_work_lasts_until_the_score_has_decayed(threshold, avoided, days):
    assert HALF_LIFE == 30 * DAY
    services = [
        Service(0, 10 * DAY, True),
        Service(10 * DAY, 30 * DAY, True),
        Service(30 * DAY, 510 * DAY, True),
    ]
    found = saved(services, threshold)
    assert (found.repeats, found.avoided) == (2, avoided)
    assert found.days == pytest.approx(days)
