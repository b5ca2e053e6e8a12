"""Responses of the custom metrics API in both versions: quantities, timestamps, and invalid items."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.sources import custom_metrics
from evaluator.core.sources.answer import MeasurementTime, SourceError, moment
from plimsoll import rfc3339

NOON = "2026-11-20T12:00:00Z"
THERE = rfc3339.parse(NOON)
NOW = MeasurementTime(here=500.0, there=THERE)


def item(node, value="1", timestamp=NOON, **more):
    return {
        "describedObject": {"kind": "Node", "name": node, "apiVersion": "/v1"},
        "metric": {"name": "health_metric", "selector": None},
        "timestamp": timestamp,
        "value": value,
        **more,
    }


def parse(*items, now=NOW):
    return custom_metrics.parse_list(json.dumps({"items": items}).encode(), now)


def test_v1beta2_list_is_decoded():
    """As prometheus-adapter formats it."""
    body = b"""{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","metadata":{},"items":[
      {"describedObject":{"kind":"Node","name":"node-a","apiVersion":"/v1"},
       "metric":{"name":"health_metric","selector":null},"timestamp":"2026-11-20T11:59:50Z","value":"1500m"},
      {"describedObject":{"kind":"Node","name":"node-b","apiVersion":"/v1"},
       "metric":{"name":"health_metric","selector":null},"timestamp":"2026-11-20T12:00:00Z","windowSeconds":60,
       "value":"2k"}]}"""
    answer = custom_metrics.parse_list(body, NOW)
    assert answer.readings == {"node-a": (1, 1.5, 490.0), "node-b": (1, 2000.0, 500.0)}
    assert answer.flaws == ()


def test_v1beta1_list_is_decoded():
    body = b"""{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta1","metadata":{"selfLink":"/apis"},
      "items":[{"describedObject":{"kind":"Node","name":"node-a","apiVersion":"/v1"},"metricName":"health_metric",
      "timestamp":"2026-11-20T12:00:00Z","window":60,"value":"0","selector":null}]}"""
    assert custom_metrics.parse_list(body, NOW).readings == {"node-a": (1, 0.0, 500.0)}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1500m", 1.5),
        ("1Ki", 1024.0),
        ("1k", 1e3),
        ("-3", -3.0),
        ("9007199254740993", 2.0**53),
        (7, 7),
    ],
)
def test_values_are_quantities(value, number):
    assert parse(item("a", value)).readings["a"].value == number


@pytest.mark.parametrize(
    ("timestamp", "here"),
    [
        ("2026-11-20T11:59:00Z", 440.0),
        ("2026-11-20T13:59:00+02:00", 440.0),
        ("2026-11-20T11:59:59.500000Z", 499.5),
        ("2026-11-20T12:00:05Z", 500.0),  # ahead of the server's own clock
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_reading_has_the_age_of_its_timestamp(timestamp, here):
    at = parse(item("a", timestamp=timestamp)).readings["a"].at
    assert at == here if here is not None else at < -1e9


def test_age_uses_the_servers_clock_only():
    """Our clock may be hours off."""
    server = moment("Fri, 20 Nov 2026 12:00:00 GMT", here=500.0, wall=THERE + 7200)
    assert parse(item("a", timestamp="2026-11-20T11:59:50Z"), now=server).readings["a"].at == 490.0


@pytest.mark.parametrize("date", ["", "soon"])
def test_missing_date_header_falls_back_to_our_clock(date):
    assert moment(date, here=500.0, wall=THERE) == NOW


def test_several_values_of_a_node_are_several_samples_of_the_oldest_age():
    found = parse(item("a", "1"), item("a", "2", "2026-11-20T11:59:50Z")).readings["a"]
    assert (found.samples, found.at) == (2, 490.0)
    assert math.isnan(found.value)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (item("b", "many"), "not a quantity: 'many'"),
        (item("b", None), "it has no value"),
        (item("b", timestamp=None), "it has no timestamp"),
        (item("b", timestamp="noon"), "noon"),
        (item("b", timestamp="2026-11-20T12:00:00"), "a time without a zone"),
        (item(""), "it names no node"),
        (item("b", window=-1), "a negative window"),
        (item("b", windowSeconds="x"), "windowSeconds"),
        (7, "Expected `object`"),
    ],
)
def test_unreadable_item_hides_no_other(broken, why):
    answer = parse(item("a"), broken)
    assert answer.readings.keys() == {"a"}
    (flaw,) = answer.flaws
    assert flaw.startswith("1 of 2 values cannot be read: ")
    assert why in flaw


def test_first_flaw_is_reported_for_all():
    answer = parse(item("a"), *(item(f"b{n}", "x") for n in range(50)), item("c", None))
    assert answer.flaws == (
        "50 of 52 values cannot be read: not a quantity: 'x' (write it like 3, 1500m, 2Gi or 1e3)",
    )


def refused(body):
    with pytest.raises(SourceError) as caught:
        custom_metrics.parse_list(body, NOW)
    return caught.value.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"items":[]}', "empty"),
        (b'{"items":null}', "empty"),
        (b"{}", "empty"),
        (b'{"items":[{}]}', "malformed"),
        (b"[]", "malformed"),
        (b"<html>", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b'{"items":[{"describedObject":{"name":"\xff"}}]}', "malformed"),
        (b'{"items":3}', "malformed"),
        (b"", "malformed"),
    ],
)
def test_list_without_nodes_is_rejected(body, reason):
    assert refused(body) == reason


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "describedObject": st.fixed_dictionaries({"name": anything}) | anything,
                "timestamp": st.sampled_from([NOON]) | anything,
                "value": anything,
                "window": anything,
                "windowSeconds": anything,
            },
        ),
        max_size=3,
    )
)
def test_any_input_is_decoded_or_rejected(items):
    try:
        answer = custom_metrics.parse_list(msgspec.json.encode({"items": items}), NOW)
    except SourceError:
        return
    assert answer.readings
