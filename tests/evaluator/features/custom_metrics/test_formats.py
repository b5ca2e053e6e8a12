"""Metric value lists: every value is read back as it was written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.sources import custom_metrics
from evaluator.core.sources.answer import MeasurementTime
from evaluator.features.custom_metrics import formats

NOW = 1_700_000_000
finite = st.floats(allow_nan=False, allow_infinity=False)
readings = st.dictionaries(
    st.text(min_size=1, max_size=20),
    st.tuples(finite, st.integers(NOW - 3600, NOW)),
    min_size=1,
    max_size=8,
)


def encoded(version, found, metric="load"):
    numbers, seconds = zip(*found.values(), strict=True)
    objects = (formats.described("Node", name) for name in found)
    return b"".join(formats.value_list(version, metric, objects, seconds, numbers))


@given(readings, st.sampled_from(["v1beta1", "v1beta2"]), st.text(min_size=1, max_size=9))
def test_source_reads_every_value_and_time_that_is_served(found, version, metric):
    body = encoded(version, found, metric)
    answer = custom_metrics.parse_list(body, MeasurementTime(here=float(NOW), there=float(NOW)))
    assert answer.flaws == ()
    read = {name: (reading.value, reading.at) for name, reading in answer.readings.items()}
    assert read == found


@pytest.mark.parametrize("count", [1, 199, 200, 201, 1000])
def test_list_in_pieces_is_one_json_document(count):
    found = {f"node-{number}": (float(number), NOW) for number in range(count)}
    items = json.loads(encoded("v1beta2", found))["items"]
    assert [item["value"] for item in items] == [str(number) for number in range(count)]
