"""Peer metrics: properties of the statistics, of groups, and of the limit on accused nodes."""

import statistics as reference

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.readings.column import Column
from evaluator.core.readings.peer_metrics import ALL_NODES, PeerKind, PeerMetric, peer_metric
from evaluator.core.readings.peer_readings import PeerColumns
from evaluator.core.readings.peers import (
    FLOOR,
    MOST_DEVIATION,
    SCALE,
    LabelGroups,
)

DEVIATION = PeerMetric("latency", PeerKind.DEVIATION, ALL_NODES)
RATIO = PeerMetric("latency", PeerKind.RATIO, ALL_NODES)
READINGS = st.floats(min_value=0.001, max_value=1e6)
GROUPS = st.lists(READINGS, min_size=8, max_size=40)


def column(values, usable=None):
    values = np.array(values, np.float64)
    samples = np.ones(len(values), np.int32) if usable is None else np.array(usable, np.int32)
    yes, no = np.ones(len(values), bool), np.zeros(len(values), bool)
    return Column(values, samples, np.zeros(len(values)), yes, no, no)


def names(count):
    return NodeIndex(f"node-{number:04d}" for number in range(count))


def compared(values, metric=DEVIATION, usable=None, labels=None):
    columns = PeerColumns(LabelGroups(labels.__getitem__ if labels else None))
    return columns.derive(metric, column(values, usable), names(len(values))).values


@given(GROUPS)
def test_deviation_is_the_distance_from_the_median_in_scaled_mads(values):
    median = reference.median(values)
    mad = reference.median(abs(value - median) for value in values)
    scale = max(SCALE * mad, FLOOR * abs(median))
    expected = [(value - median) / scale for value in values]
    limited = np.clip(expected, -MOST_DEVIATION, MOST_DEVIATION)
    np.testing.assert_allclose(compared(values), limited, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(compared(values, RATIO), np.array(values) / median, rtol=1e-12)


@given(GROUPS, st.randoms(use_true_random=False))
def test_permutation_of_nodes_permutes_deviations(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    shuffled = compared([values[position] for position in order])
    np.testing.assert_array_equal(shuffled, compared(values)[order])


@given(GROUPS, st.sampled_from([2.0**-20, 0.5, 2.0, 1024.0, 2.0**30]))
@example([1.0] * 7 + [0.0] * 9, 8.0)
def test_scaling_a_metric_changes_no_deviation(values, factor):
    scaled = compared([value * factor for value in values])
    np.testing.assert_array_equal(scaled, compared(values))


@given(GROUPS, st.integers(min_value=0), st.floats(allow_nan=False))
def test_one_lie_moves_the_median_by_one_rank_at_most(values, liar, lie):
    liar %= len(values)
    told = [*values[:liar], lie, *values[liar + 1 :]]
    (median,) = peers_of(told, least=3).peers.found.medians
    ranked, half = sorted(values), len(values) // 2
    lowest, highest = half - (2 if len(values) % 2 == 0 else 1), half + 1
    assert ranked[max(0, lowest)] <= median <= ranked[min(highest, len(values) - 1)]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), READINGS, st.booleans()), min_size=1, max_size=60)
)
def test_groups_do_not_see_one_another_and_missing_readings_are_no_peers(nodes):
    labels = {f"node-{number:04d}": {"rack": group} for number, (group, _, _) in enumerate(nodes)}
    values, usable = [value for _, value, _ in nodes], [known for _, _, known in nodes]
    metric = PeerMetric("latency", PeerKind.DEVIATION, "rack")
    found = compared(values, metric, usable, labels)
    for group in "abc":
        own = [n for n, (of, _, known) in enumerate(nodes) if of == group and known]
        alone = compared([values[n] for n in own]) if len(own) >= 8 else np.full(len(own), np.nan)
        np.testing.assert_array_equal(found[own], alone)
    assert np.isnan(found[[not known for known in usable]]).all()


def test_equal_readings_do_not_deviate_even_if_all_are_zero():
    assert compared([0.0] * 20 + [3.0]).tolist() == [0.0] * 20 + [MOST_DEVIATION]
    assert np.isnan(compared([0.0] * 21, RATIO)).all()  # no ratio to 0


def test_infinite_readings_neither_raise_nor_hide_a_group():
    found = compared([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, np.inf, -np.inf])
    assert found[-2:].tolist() == [MOST_DEVIATION, -MOST_DEVIATION]
    assert np.isfinite(found).all()
    assert np.isnan(compared([np.inf] * 9)).all()


def test_node_whose_label_changes_changes_its_group():
    labels = {f"node-{number:04d}": {"rack": "a"} for number in range(16)}
    groups, nodes = LabelGroups(labels.__getitem__), names(16)
    before = groups.grouping("rack", nodes)
    assert groups.grouping("rack", nodes) is before
    labels["node-0003"] = {"rack": "a", "other": "label"}
    assert not groups.changed("node-0003")
    assert groups.grouping("rack", nodes) is before
    labels["node-0003"] = {}
    assert groups.changed("node-0003")
    after = groups.grouping("rack", nodes)
    assert (after.names, after.codes[3], after.codes[4]) == (("", "a"), 0, 1)


def by_definition(values, usable, groups, metric):
    """The peer metric by its definition: each node beside the sorted readings of its group."""
    found = np.full(len(values), np.nan)
    for group in set(groups):
        own = [n for n, name in enumerate(groups) if name == group and usable[n]]
        if len(own) < metric.least:
            continue
        readings = np.array([values[n] for n in own])
        with np.errstate(all="ignore"):
            median = middle(readings)
            scale = np.maximum(SCALE * middle(np.abs(readings - median)), FLOOR * np.abs(median))
            if metric.kind is PeerKind.RATIO:
                found[own] = readings / median if median > 0 else np.nan
            else:
                deviations = np.where(readings == median, 0.0, (readings - median) / scale)
                known = not np.isnan(median) and np.isfinite(median)
                found[own] = (
                    np.clip(deviations, -MOST_DEVIATION, MOST_DEVIATION) if known else np.nan
                )
    return found


def middle(readings):
    ordered, half = np.sort(readings), len(readings) // 2
    if len(readings) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


FEW = st.sampled_from([-3.0, 0.0, 0.1, 0.3, 1.0, 1.1, 7.0, np.inf, -np.inf])
ANY = st.floats(allow_nan=False)
NODES = st.lists(
    st.tuples(FEW | READINGS | ANY, st.sampled_from([True, True, True, False])),
    min_size=24,
    max_size=24,
)


@settings(max_examples=60)
@given(
    st.lists(NODES, min_size=1, max_size=4),
    st.lists(st.sampled_from("ab"), min_size=24, max_size=24),
    st.sampled_from(PeerKind),
    st.integers(3, 9),
    st.data(),
)
def test_rules_on_peers_match_where_the_definition_does(moments, groups, kind, least, data):
    labels = {f"node-{number:04d}": {"rack": group} for number, group in enumerate(groups)}
    metric = PeerMetric("latency", kind, "rack", least)
    columns, nodes = PeerColumns(LabelGroups(labels.__getitem__)), names(24)
    kept = []
    for moment in with_few_changes(moments):
        values, usable = zip(*moment, strict=True)
        expected = by_definition(values, usable, groups, metric)
        found = columns.derive(metric, column(values, usable), nodes)
        # Targets that deviations are equal to, and those beside them.
        own = data.draw(st.sampled_from([0.0, 6.0, 1000.0, -1000.0, -2000.0, *expected.tolist()]))
        for target in (own, np.nextafter(own, np.inf), np.nextafter(own, -np.inf), -own):
            if np.isfinite(target):
                for sign, compare in ((1.0, np.greater), (-1.0, np.less), (0.0, np.equal)):
                    near = found.peers.beyond(target, sign)
                    met = near[compare(found.peers.values_at(near), target)]
                    assert met.tolist() == compare(expected, target).nonzero()[0].tolist()
        np.testing.assert_array_equal(found.usable, ~np.isnan(expected))
        kept.append((found, expected))
    for found, expected in kept:  # later readings do not change earlier columns
        np.testing.assert_array_equal(found.values, expected)


def with_few_changes(moments):
    """Yield each moment, and on the way to it those in which one more node has its readings of it."""
    current = list(moments[0])
    yield list(current)
    for moment in moments[1:]:
        for position in (0, 7, 23, 5):
            current[position] = moment[position]
            yield list(current)
        current = list(moment)
        yield current


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5]), st.booleans())
def test_statistics_of_large_groups_do_not_depend_on_earlier_readings(seed, racks, ties):
    rng, count = np.random.default_rng(seed), 2500
    labels = {node: {"rack": f"{rng.integers(racks)}"} for node in names(count)}
    groups = LabelGroups(labels.__getitem__)
    columns, nodes = PeerColumns(groups), names(count)
    metric, values = PeerMetric("latency", PeerKind.DEVIATION, "rack"), rng.lognormal(3, 1, count)
    for share in (0.0, 0.01, 0.01, 0.3, 1.0, 0.01):
        changed = rng.random(count) < share
        values = np.where(
            changed, rng.lognormal(3, rng.random(), count), values * rng.choice([1, 1, 1, 3])
        )
        values[rng.integers(count, size=3)] = rng.choice([0.0, np.inf, -np.inf, 1e300, 5.0], 3)
        values = np.round(values) if ties else values
        usable = rng.random(count) > rng.choice([0, 0.1])
        if rng.random() < 0.2:
            labels[moving := nodes[rng.integers(count)]] = {"rack": "0"}
            groups.changed(moving)
        derived = columns.derive(metric, column(values, usable), nodes)
        np.testing.assert_array_equal(derived.measured, values)
        found = derived.peers.found
        for group, name in enumerate(sorted({one["rack"] for one in labels.values()})):
            own = [
                known and labels[node]["rack"] == name
                for node, known in zip(nodes, usable, strict=True)
            ]
            with np.errstate(over="ignore", invalid="ignore"):
                median = middle(values[own])
                spread = middle(np.abs(values[own] - median))
            scale = max(SCALE * spread, FLOOR * abs(median))
            assert (found.medians[group], found.scales[group]) == (median, scale)


def test_unchanged_readings_are_not_compared_again():
    columns, nodes = PeerColumns(), names(10)
    first = columns.derive(DEVIATION, column(range(10)), nodes)
    same = columns.derive(DEVIATION, column(range(10)), nodes)
    assert same.values is first.values
    other = columns.derive(DEVIATION, column(range(1, 11)), nodes)
    assert other.values is not first.values
    columns.keep(["other"])
    assert columns.derive(DEVIATION, column(range(1, 11)), nodes).values is not other.values


def peers_of(values, **options):
    columns = PeerColumns()
    return columns.derive(DEVIATION._replace(**options), column(values), names(len(values)))


@given(st.lists(READINGS, min_size=8, max_size=80), st.floats(0.0, 3.0))
def test_at_most_a_tenth_of_a_group_is_accused_the_farthest_first(values, target):
    found = peers_of(values)
    where = found.values > target
    kept = found.peers.capped(where, np.zeros(len(values), bool), 1.0)
    most = max(1, len(values) // 10)
    assert kept.sum() == min(where.sum(), most)
    assert (kept <= where).all()
    if (where & ~kept).any():
        assert found.values[kept].min() >= found.values[where & ~kept].max()


def test_nodes_accused_before_come_before_farther_ones():
    found = peers_of([1.0] * 20 + [5.0, 6.0, 7.0])
    where, first = found.values > 5, np.zeros(23, bool)
    first[20] = True
    assert found.peers.capped(where, first, 1.0).nonzero()[0].tolist() == [20, 22]


def test_equally_far_nodes_are_chosen_by_reading_then_by_name():
    found = peers_of([0.0] * 17 + [4.0, 9.0, 4.0])  # all three deviate by MOST_DEVIATION
    none = np.zeros(20, bool)
    kept = found.peers.capped(found.values > 5, none, 1.0)
    assert kept.nonzero()[0].tolist() == [17, 18]


def test_nodes_without_a_reading_come_last():
    values = [1.0] * 17 + [9.0, 90.0, 8.0]
    usable = [True] * 18 + [False, True]
    found = PeerColumns().derive(DEVIATION, column(values, usable), names(20))
    where, none = np.arange(20) >= 17, np.zeros(20, bool)
    assert found.peers.capped(where, none, 1.0).nonzero()[0].tolist() == [17]
    assert found.peers.capped(where, none, -1.0).nonzero()[0].tolist() == [19]


def test_small_group_says_why_it_has_no_reading():
    found = peers_of([1.0] * 5)
    assert np.isnan(found.values).all()
    assert found.peers.lacking() == ["5 nodes of its group have a reading, fewer than 8"]
    assert found.peers.alone.all()
    assert peers_of([1.0] * 5, least=5).peers.lacking() == [""]


@pytest.mark.parametrize(
    "metric",
    [
        PeerMetric("a", PeerKind.DEVIATION),
        PeerMetric("a-b", PeerKind.RATIO, "topology.kubernetes.io/rack", 5),
        PeerMetric("a", PeerKind.RATIO, ALL_NODES),
    ],
)
def test_names_of_columns_are_read_back(metric):
    assert peer_metric(str(metric)) == metric
    assert peer_metric(metric.base) is None
