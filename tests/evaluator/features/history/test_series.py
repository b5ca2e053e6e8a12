"""Series of readings: what a minute holds, and how much memory all of them take."""

import gc
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.decide import Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.readings.column import Column
from evaluator.features.history.series import MOST, Series
from tests.alone import alone


def decisions(nodes, **metrics):
    """Decisions over nodes with the readings of some metrics; None: no reading."""
    nodes = nodes if isinstance(nodes, NodeIndex) else NodeIndex(nodes)
    columns = {}
    for name, values in metrics.items():
        found = np.array([np.nan if v is None else v for v in values], np.float64)
        size = len(found)
        columns[name] = Column(
            found,
            np.ones(size, np.int32),
            np.zeros(size),
            np.ones(size, bool),
            np.zeros(size, bool),
            np.zeros(size, bool),
        )
    table = MetricTable(nodes, columns)
    for name in metrics:
        table.prepare(name)
    return Decisions(table)


def points(series, node, metric, since=0.0):
    found = dict(series.metrics_of(node, [metric], since, math.inf))
    return [(p.at, p.low, p.mean, p.high) for p in found.get(metric, ())]


def test_minute_has_lowest_mean_and_highest_reading():
    series = Series(1 << 20)
    for second, value in ((0, 1.0), (5, 4.0), (10, None), (15, 1.0)):
        list(series.sample(decisions(["a", "b"], m=[value, 8.0]), second))
    list(series.sample(decisions(["a", "b"], m=[2.0, None]), 60.0))
    list(series.sample(decisions(["a", "b"], m=[2.0, None]), 120.0))
    assert points(series, "a", "m") == [(0.0, 1.0, 2.0, 4.0), (60.0, 2.0, 2.0, 2.0)]
    assert points(series, "b", "m") == [(0.0, 8.0, 8.0, 8.0)]
    assert points(series, "c", "m") == points(series, "a", "x") == []


def test_nodes_that_come_and_go_keep_their_own_readings():
    series = Series(1 << 20)
    for minute, (nodes, value) in enumerate(
        [(["a", "b"], 1.0), (["b", "c"], 2.0), (["a", "c", "d"], 3.0), (["a"], 4.0), (["a"], 5.0)]
    ):
        made = decisions(nodes, m=[value] * len(nodes))
        list(series.sample(made, 60.0 * minute))
    assert [p[2] for p in points(series, "a", "m")] == [3.0, 4.0]
    assert points(series, "b", "m") == []


@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from("abcd"), min_size=1),
            st.lists(
                st.one_of(st.none(), st.floats(-1e12, 1e12), st.just(math.inf)),
                min_size=4,
                max_size=4,
            ),
            st.integers(1, 50),
        ),
        max_size=12,
    )
)
@example([({"a", "b", "c", "d"}, [None, None, None, 1.4e-45], 1)])
def test_points_equal_those_of_plain_lists_to_three_digits(world):
    series, plain, now = Series(1 << 20), {}, 0
    for nodes, values, seconds in world:
        now += seconds
        names = sorted(nodes)
        list(series.sample(decisions(names, m=values[: len(names)]), float(now)))
        for gone in {node for node, _ in plain} - nodes:
            plain = {key: value for key, value in plain.items() if key[0] != gone}
        for node, value in zip(names, values, strict=False):
            if value is not None:
                plain.setdefault((node, now // 60), []).append(value)
    present = sorted(world[-1][0]) if world else []
    list(series.sample(decisions(present, m=[None] * len(present)), now + 60.0))
    read = [abs(v) for _, values, _ in world for v in values if v is not None and math.isfinite(v)]
    largest = max(read, default=0)  # of nodes that left, too: a minute has one scale
    for node in present:
        expected = {
            60.0 * minute: (min(found), sum(found) / len(found), max(found))
            for (of, minute), found in plain.items()
            if of == node
        }
        shown = {at: numbers for at, *numbers in points(series, node, "m")}
        assert shown.keys() == expected.keys()
        for at, numbers in shown.items():
            assert numbers == pytest.approx(expected[at], rel=2e-3, abs=max(2e-9 * largest, 1e-30))


@alone
def test_six_hours_of_storms_stay_within_the_bound():
    nodes, size = NodeIndex([f"node-{n:04d}" for n in range(2_000)]), 8 << 20
    rng, metrics = np.random.default_rng(1), [f"m{n:02d}" for n in range(40)]
    series = Series(size)
    worlds = [decisions(nodes, **{m: rng.random(2_000) * 1e9 for m in metrics}) for _ in range(3)]
    list(series.sample(worlds[0], 0.0))
    gc.collect()
    tracemalloc.start()
    try:
        for minute in range(1, 80):
            list(series.sample(worlds[minute % 3], 60.0 * minute))
            assert series.size <= size
        assert tracemalloc.get_traced_memory()[1] <= size
    finally:
        tracemalloc.stop()
    kept = points(series, "node-0007", "m00")
    assert kept[-1][0] == 78 * 60.0
    assert 25 <= len(kept) < MOST
    assert set(series.left_out) < set(metrics)
    assert kept[-1][2] == pytest.approx(
        float(worlds[78 % 3].table.prepared["m00"].values[7]), rel=0.01, abs=1e6
    )
