"""Aggregations; expected results are from Prometheus 2.42."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql import labels
from agent.rules.promql.operators.aggregations import SUPPORTED, Grouping, aggregator
from agent.rules.promql.values import EvaluationError

NAN, INF = math.nan, math.inf
ALL = Grouping()
PARAMETERS = {"topk": 2.0, "bottomk": 2.0, "quantile": 0.5, "count_values": "value"}


def of(name="m", /, **pairs):
    return labels.make([*pairs.items(), ("__name__", name)])


def unnamed(**pairs):
    return labels.make(pairs.items())


def by(*names):
    return Grouping(by=True, names=frozenset(names))


def without(*names):
    return Grouping(by=False, names=frozenset(names))


def column(*values):
    return [(of(i=str(i)), value) for i, value in enumerate(values)]


def reduced(op, *values, parameter=None):
    """The single value of an aggregation."""
    ((found, value),) = aggregator(op, ALL)(column(*values), parameter)
    assert found == ()
    return value


RACK = [
    (of(host="a", cpu="0"), 1.0),
    (of(host="a", cpu="1"), 2.0),
    (of(host="b", cpu="0"), 4.0),
    (of("n", host="b", cpu="0", mode="x"), 8.0),
    (of("n"), 16.0),
]


@pytest.mark.parametrize(
    ("grouping", "sums"),
    [
        (ALL, {(): 31.0}),
        (by("nothing"), {(): 31.0}),
        (by("host"), {unnamed(host="a"): 3.0, unnamed(host="b"): 12.0, (): 16.0}),
        (by("__name__"), {of("m"): 7.0, of("n"): 24.0}),
        (
            by("cpu", "mode"),
            {
                unnamed(cpu="0"): 5.0,
                unnamed(cpu="1"): 2.0,
                unnamed(cpu="0", mode="x"): 8.0,
                (): 16.0,
            },
        ),
        (without("cpu", "mode"), {unnamed(host="a"): 3.0, unnamed(host="b"): 12.0, (): 16.0}),
        (
            without(),
            {
                unnamed(host="a", cpu="0"): 1.0,
                unnamed(host="a", cpu="1"): 2.0,
                unnamed(host="b", cpu="0"): 4.0,
                unnamed(host="b", cpu="0", mode="x"): 8.0,
                (): 16.0,
            },
        ),
    ],
)
def test_elements_are_grouped_by_labels_and_lose_the_others(grouping, sums):
    assert dict(aggregator("sum", grouping)(RACK, None)) == sums


@pytest.mark.parametrize(
    ("op", "values", "result"),
    [
        ("sum", (1.0, 2.0, 4.5), 7.5),
        ("sum", (INF, -INF), NAN),
        ("sum", (1e308, 1e308), INF),
        ("sum", (1e16, 1.0, -1e16), 1.0),  # compensated
        ("sum", (-0.0,), 0.0),
        ("avg", (1e16, 1.0, -1e16, 2.0), 0.75),
        ("min", (2.0, 1.0, 3.0), 1.0),
        ("min", (NAN, 2.0, 1.0), 1.0),
        ("min", (2.0, NAN, 1.0), 1.0),
        ("min", (NAN, NAN), NAN),
        ("min", (NAN, INF), INF),
        ("max", (2.0, 1.0, 3.0), 3.0),
        ("max", (NAN, 2.0, 3.0), 3.0),
        ("max", (3.0, NAN, 2.0), 3.0),
        ("max", (NAN,), NAN),
        ("max", (NAN, -INF), -INF),
        ("avg", (1.0, 2.0, 6.0), 3.0),
        ("avg", (1.7e308, 1.7e308, 1.7e308), 1.7e308),  # the sum would overflow
        ("avg", (INF, 1.0, INF), INF),
        ("avg", (1.0, -INF, 2.0), -INF),
        ("avg", (INF, -INF, 1.0), NAN),
        ("avg", (INF, NAN), NAN),
        ("count", (NAN, 1.0, INF), 3.0),
        ("group", (NAN, 5.0), 1.0),
        ("stdvar", (1.0, 2.0, 6.0), 14 / 3),
        ("stddev", (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0), 2.0),
        ("stddev", (1e9 + 1, 1e9 + 2, 1e9 + 3), math.sqrt(2 / 3)),
        ("stddev", (NAN,), NAN),
        ("stdvar", (INF,), NAN),
        ("stdvar", (INF, 1.0), NAN),
        ("stddev", (1.0, INF), NAN),
        ("stdvar", (1.7e308, -1.7e308), -INF),
        ("stddev", (1.7e308, -1.7e308), NAN),
    ],
)
def test_group_aggregation_is_one(op, values, result):
    assert reduced(op, *values) == pytest.approx(result, rel=1e-12, abs=0, nan_ok=True)


@pytest.mark.parametrize(
    ("rank", "values", "result"),
    [
        (0.0, (3.0, 1.0, 2.0), 1.0),
        (0.5, (3.0, 1.0, 2.0), 2.0),
        (0.5, (4.0, 1.0, 2.0, 3.0), 2.5),
        (0.9, (0.0, 10.0), 9.0),
        (1.0, (3.0, 1.0, 2.0), 3.0),
        (0.3, (7.0,), 7.0),
        (0.0, (1.0, NAN), NAN),
        (1.0, (1.0, NAN), 1.0),
        (-0.1, (1.0, 2.0), -INF),
        (1.1, (1.0, 2.0), INF),
        (NAN, (1.0, 2.0), NAN),
    ],
)
def test_quantile_interpolates_between_neighbours(rank, values, result):
    assert reduced("quantile", *values, parameter=rank) == pytest.approx(result, nan_ok=True)


@pytest.mark.parametrize(
    ("op", "wanted", "kept"),
    [
        ("topk", 1.0, ["3"]),
        ("topk", 2.9, ["3", "1"]),
        ("topk", 3.0, ["3", "1", "2"]),
        ("topk", 99.0, ["3", "1", "2", "0", "4"]),
        ("bottomk", 1.0, ["0"]),
        ("bottomk", 2.0, ["0", "1"]),
        ("bottomk", 99.0, ["0", "1", "2", "3", "4"]),
        ("topk", 0.9, []),
        ("bottomk", 0.0, []),
        ("topk", -1.0, []),
        ("bottomk", -1e19, []),
        ("topk", -INF, []),
    ],
)
@pytest.mark.parametrize("step", [1, -1])
def test_topk_elements_keep_labels_in_any_input_order(op, wanted, kept, step):
    values = column(-1.0, 2.0, 2.0, INF, NAN)
    found = aggregator(op, ALL)(values[::step], wanted)
    assert found == [values[int(index)] for index in kept]


@pytest.mark.parametrize(
    ("op", "wanted", "values", "kept"),
    [
        ("topk", 1.0, (1.0, 1.0, 1.0), {"0"}),
        ("topk", 2.0, (1.0, 1.0, 1.0), {"0", "1"}),
        ("topk", 2.0, (1.0, 1.0, 2.0), {"1", "2"}),
        ("topk", 3.0, (1.0, 1.0, 1.0, 2.0, 1.0), {"1", "2", "3"}),
        ("topk", 4.0, (1.0, 2.0, 1.0, 1.0, 1.0, 3.0), {"1", "2", "3", "5"}),
        ("bottomk", 2.0, (2.0, 2.0, 1.0), {"1", "2"}),
        ("bottomk", 1.0, (0.0, -0.0), {"0"}),
        ("topk", 1.0, (NAN, NAN, NAN), {"0"}),
        ("bottomk", 1.0, (NAN, NAN, NAN), {"0"}),
        ("topk", 2.0, (NAN, NAN, NAN), {"0", "1"}),
        ("topk", 2.0, (NAN, 1.0, NAN), {"0", "1"}),
        ("topk", 1.0, (NAN, -INF), {"1"}),
    ],
)
def test_topk_breaks_ties_as_prometheus(op, wanted, values, kept):
    found = aggregator(op, ALL)(column(*values), wanted)
    assert {labels.value(labels_, "i") for labels_, _ in found} == kept


def test_each_group_has_its_topk():
    found = aggregator("topk", by("host"))(RACK, 1.0)
    assert sorted(found) == sorted([RACK[1], RACK[3], RACK[4]])


@pytest.mark.parametrize("wanted", [NAN, INF, 1e19])
@pytest.mark.parametrize("op", ["topk", "bottomk"])
def test_invalid_k_is_an_error_even_without_elements(op, wanted):
    with pytest.raises(EvaluationError, match="overflows int64"):
        aggregator(op, ALL)([], wanted)


def test_counted_values_are_formatted_without_exponents():
    values = column(1.0, -0.0, 1e16, 1e-7, NAN, INF, -INF)
    found = aggregator("count_values", ALL)(values, "v")
    texts = ["1", "-0", "10000000000000000", "0.0000001", "NaN", "+Inf", "-Inf"]
    assert found == [(unnamed(v=text), 1.0) for text in texts]


@pytest.mark.parametrize(
    ("name", "grouping", "counts"),
    [
        ("v", ALL, {unnamed(v="1"): 3.0, unnamed(v="2"): 1.0}),
        (
            "v",
            by("x"),
            {unnamed(v="1", x="a"): 2.0, unnamed(v="2", x="a"): 1.0, unnamed(v="1"): 1.0},
        ),
        ("x", by("x"), {unnamed(x="1"): 3.0, unnamed(x="2"): 1.0}),
        ("x", without("i"), {unnamed(x="1"): 3.0, unnamed(x="2"): 1.0}),
        ("x", without("i", "x"), {(): 4.0}),
        ("__name__", ALL, {of("1"): 3.0, of("2"): 1.0}),
        ("__name__", without("i", "x"), {(): 4.0}),
    ],
)
def test_counted_value_becomes_a_label(name, grouping, counts):
    vector = [
        (of(i="0", x="a"), 1.0),
        (of(i="1", x="a"), 1.0),
        (of(i="2", x="a"), 2.0),
        (of(), 1.0),
    ]
    assert dict(aggregator("count_values", grouping)(vector, name)) == counts


@pytest.mark.parametrize("op", sorted(SUPPORTED))
def test_empty_input_has_an_empty_result(op):
    assert aggregator(op, by("x"))([], PARAMETERS.get(op)) == []


def test_series_may_change_between_evaluations():
    total = aggregator("sum", by("host"))
    first = dict(total(RACK, None))
    assert dict(total(RACK[1:], None)) == first | {unnamed(host="a"): 2.0}
    assert dict(total([*RACK[:2], RACK[4]], None)) == {unnamed(host="a"): 3.0, (): 16.0}
    assert dict(total([(labels_, 2 * value) for labels_, value in RACK], None)) == {
        labels_: 2 * value for labels_, value in first.items()
    }


SETS = st.builds(
    lambda name, pairs: labels.make([*pairs.items(), ("__name__", name)]),
    st.sampled_from("mn"),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
)
GROUPINGS = st.builds(
    Grouping, st.booleans(), st.frozensets(st.sampled_from(["a", "b", "__name__"]))
)


def vectors_of(values):
    return st.dictionaries(SETS, values, max_size=20).map(lambda found: list(found.items()))


WHOLE = st.integers(-1000, 1000).map(float)


@given(vectors_of(WHOLE), GROUPINGS)
def test_sum_of_groups_is_the_total(vector, grouping):
    for op in ("sum", "count"):
        whole, parts = aggregator(op, ALL), aggregator(op, grouping)
        assert aggregator("sum", ALL)(parts(vector, None), None) == whole(vector, None)


@given(vectors_of(WHOLE), GROUPINGS)
def test_extremes_of_groups_contain_the_total_extremes(vector, grouping):
    for op in ("min", "max"):
        whole, parts = aggregator(op, ALL), aggregator(op, grouping)
        assert whole(parts(vector, None), None) == whole(vector, None)


@given(st.data(), st.sampled_from(sorted(SUPPORTED)), GROUPINGS)
def test_order_of_elements_does_not_matter(data, op, grouping):
    vector = data.draw(vectors_of(WHOLE | st.just(NAN) | st.just(INF)))
    other = data.draw(st.permutations(vector))
    parameter = PARAMETERS.get(op)
    found, again = (sorted(aggregator(op, grouping)(v, parameter)) for v in (vector, other))
    assert [labels_ for labels_, _ in found] == [labels_ for labels_, _ in again]
    assert [v for _, v in found] == pytest.approx(
        [v for _, v in again], rel=1e-9, abs=1e-9, nan_ok=True
    )


@given(vectors_of(st.floats()), st.sampled_from(sorted(SUPPORTED)), GROUPINGS)
def test_no_number_is_an_error(vector, op, grouping):
    found = aggregator(op, grouping)(vector, PARAMETERS.get(op))
    assert len({labels_ for labels_, _ in found}) == len(found)
    assert all(isinstance(value, float) for _, value in found)


@given(vectors_of(st.floats(allow_nan=False)), st.integers(1, 5), GROUPINGS)
def test_omitted_elements_are_not_larger_than_topk(vector, wanted, grouping):
    kept = aggregator("topk", grouping)(vector, float(wanted))
    assert set(kept) <= set(vector)
    for group, size in aggregator("count", grouping)(vector, None):
        inside = [v for labels_, v in kept if grouping(labels_) == group]
        outside = [v for labels_, v in set(vector) - set(kept) if grouping(labels_) == group]
        assert len(inside) == min(wanted, size)
        assert not outside or max(outside) <= min(inside)
