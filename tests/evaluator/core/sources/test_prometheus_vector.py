"""Prometheus vectors: joined with nodes, several series per node, unusual values, invalid results."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.sources import prometheus_vector
from evaluator.core.sources.answer import MeasurementTime, SourceError
from tests.evaluator.core.sources.test_metric_value_list import anything

NOW = MeasurementTime(here=500.0, there=1_763_640_000.0)


def join(labels):
    return labels.get("node")


def series(node="a", value="1", *, at=NOW.there, **labels):
    return {"metric": {"__name__": "m", "node": node, **labels}, "value": [at, value]}


def answer(*result, kind="vector", **more):
    body = {"status": "success", "data": {"resultType": kind, "result": list(result)}, **more}
    return prometheus_vector.parse(json.dumps(body).encode(), "m", join, NOW)


def test_series_is_its_nodes_reading():
    found = answer(series("a", "1.5"), series("b", "2e3", at=NOW.there - 10))
    assert found.readings == {"a": (1, 1.5, 500.0), "b": (1, 2000.0, 490.0)}
    assert found.flaws == ()


@pytest.mark.parametrize(
    ("text", "value"), [("+Inf", math.inf), ("-Inf", -math.inf), ("9007199254740992", 2.0**53)]
)
def test_non_decimal_values_are_parsed(text, value):
    assert answer(series(value=text)).readings["a"].value == value


def test_nan_is_a_sample_without_a_number():
    found = answer(series(value="NaN")).readings["a"]
    assert found.samples == 1
    assert math.isnan(found.value)


def test_several_series_of_a_node_are_several_samples():
    found = answer(series(cpu="0"), series(cpu="1"), series("b")).readings
    assert (found["a"].samples, found["b"].samples) == (2, 1)
    assert math.isnan(found["a"].value)


def test_metric_name_precedes_the_node_exporter_name():
    both = [series(value="1"), series(value="2") | {}, series("b", "3")]
    both[1]["metric"]["__name__"] = both[2]["metric"]["__name__"] = "node_m"
    found = answer(*both).readings
    assert (found["a"].value, found["b"].value) == (1.0, 3.0)


def test_series_of_other_machines_are_left_out_and_said():
    others = [
        {"metric": {"instance": f"10.0.0.{number}:9100"}, "value": [NOW.there, "1"]}
        for number in (2, 1)
    ]
    for order in (others, others[::-1]):
        found = answer(series("a"), *order)
        assert found.readings.keys() == {"a"}
        assert found.flaws == (
            'series of no node of the cluster are left out (labels: instance="10.0.0.1:9100")',
        )


def test_warnings_are_flaws():
    found = answer(series(), warnings=["partial response: a store is away"])
    assert found.flaws == ("warning: partial response: a store is away",)


def test_a_partial_answer_of_victoriametrics_is_a_flaw():
    found = answer(series(), isPartial=True)
    assert found.flaws == ("warning: some storage nodes did not answer: data are missing",)


def test_few_of_many_warnings_are_flaws():
    found = answer(series(), warnings=[f"{number} is missing" for number in range(10_000)])
    assert found.flaws == tuple(f"warning: {number} is missing" for number in range(3))


def refused(body):
    with pytest.raises(SourceError) as caught:
        prometheus_vector.parse(body, "m", join, NOW)
    return caught.value


def test_series_without_any_node_are_explained_by_an_example():
    body = {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": {"instance": "10.0.0.1:9100", "job": "x"}, "value": [1, "1"]}],
        },
    }
    error = refused(json.dumps(body).encode())
    assert error.reason == "unjoined"
    assert str(error) == (
        'no series belongs to a node of the cluster (labels: instance="10.0.0.1:9100", job="x")'
    )


@pytest.mark.parametrize(
    ("body", "reason", "says"),
    [
        (b'{"status":"success","data":{"resultType":"vector","result":[]}}', "empty", "no series"),
        (
            b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
            "no_vector",
            "a scalar",
        ),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "no_vector",
            "a matrix",
        ),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},'
            b'"histogram":[1,{}]}]}}',
            "histogram",
            "native histograms",
        ),
        (
            b'{"status":"error","errorType":"bad_data","error":"parse error"}',
            "refused",
            "bad_data: parse error",
        ),
        (b'{"status":"success"}', "refused", "neither a result nor an error"),
        (b"{}", "refused", "neither"),
        (b"<html>log in</html>", "malformed", "not a response of Prometheus"),
        (b"\xff", "malformed", "not a response of Prometheus"),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},'
            b'"value":[1,"one"]}]}}',
            "malformed",
            "not a number: 'one'",
        ),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[7]}}',
            "malformed",
            "an invalid vector",
        ),
    ],
)
def test_other_result_types_are_rejected(body, reason, says):
    error = refused(body)
    assert error.reason == reason
    assert says in str(error)


@pytest.mark.parametrize(
    ("metric", "query"),
    [
        ("health_metric", '{__name__="health_metric"} or {__name__="node_health_metric"}'),
        ('a"b\\c', '{__name__="a\\"b\\\\c"} or {__name__="node_a\\"b\\\\c"}'),
        ("sum", '{__name__="sum"} or {__name__="node_sum"}'),
        ("node_load1", '{__name__="node_load1"} or {__name__="load1"}'),
        ("node_", '{__name__="node_"}'),
    ],
)
def test_metric_without_a_query_is_queried_by_name(metric, query):
    assert prometheus_vector.selector(metric) == query


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "metric": st.fixed_dictionaries({"node": anything}) | anything,
                "value": st.tuples(st.integers() | st.floats(), anything) | anything,
            },
        ),
        max_size=3,
    )
)
def test_any_input_is_decoded_or_rejected(result):
    body = {"status": "success", "data": {"resultType": "vector", "result": result}}
    try:
        found = prometheus_vector.parse(msgspec.json.encode(body), "m", join, NOW)
    except SourceError:
        return
    assert found.readings
