"""Which samples belong to a policy's metric name, and the result if there is not exactly one."""

import math

import pytest

from agent.metric_names import candidates
from agent.stream.selection import matching, select
from collectors.interface.sample import Family, Sample
from wire.codec import Snapshot


def family(name, *values):
    """A family with one sample per value, with distinct labels if there are several."""
    labels = [()] if len(values) == 1 else [(("i", str(i)),) for i in range(len(values))]
    samples = (Sample(name, given, value) for given, value in zip(labels, values, strict=True))
    return Family(name, "gauge", "x", tuple(samples))


@pytest.mark.parametrize(
    ("metric", "series"),
    [
        ("health_metric", ("health_metric", "node_health_metric")),
        ("node_load1", ("node_load1", "node_node_load1")),
    ],
)
def test_prefix_may_be_omitted(metric, series):
    assert candidates(metric) == series


@pytest.mark.parametrize("series", ["health_metric", "node_health_metric"])
def test_metric_is_found_under_either_name(series):
    assert select([family(series, 1.0)], ["health_metric"]) == Snapshot({"health_metric": 1.0})


def test_metric_under_both_names_has_two_samples_and_no_value():
    found = select([family("load1", 1.0), family("node_load1", 1.0)], ["load1"])
    assert found == Snapshot(several={"load1": 2})


def test_both_spellings_may_be_subscribed_to():
    found = select([family("node_load1", 0.5)], ["load1", "node_load1"])
    assert found == Snapshot({"load1": 0.5, "node_load1": 0.5})


def test_several_samples_are_counted():
    assert select([family("x", 1.0, 2.0, 3.0)], ["x"]) == Snapshot(several={"x": 3})


def test_samples_of_one_name_in_several_families_are_counted_together():
    parts = [Family("x", "gauge", "h", (Sample("x", (("a", v),), 1.0),)) for v in "pq"]
    assert select(parts, ["x"]) == Snapshot(several={"x": 2})


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, 2.0**53, 1e-300])
def test_every_number_is_a_value(value):
    assert select([family("x", value)], ["x"]).values == {"x": value}


def test_nan_is_a_value_too():
    assert math.isnan(select([family("x", math.nan)], ["x"]).values["x"])


def test_missing_metric_is_omitted():
    assert select([family("y", 1.0)], ["x"]) == Snapshot()
    assert select([family("x")], ["x"]) == Snapshot()


def test_metric_without_a_subscription_is_omitted():
    assert select([family("x", 1.0), family("y", 2.0)], ["x"]).values == {"x": 1.0}
    assert select([family("x", 1.0)], []) == Snapshot()


def test_histogram_parts_have_their_own_names():
    samples = (Sample("h_bucket", (("le", "1"),), 1.0), Sample("h_sum", (), 2.5))
    histogram = Family("h", "histogram", "x", samples)
    assert select([histogram], ["h", "h_sum"]) == Snapshot({"h_sum": 2.5})


def test_unread_metric_is_reported_unless_found_elsewhere():
    found = select([family("x", 1.0)], ["x", "y", "z"], unread={"x", "y"})
    assert found == Snapshot({"x": 1.0}, unread=frozenset({"y"}))


def test_names_that_match_patterns_have_one_sample():
    families = [family("node_load1", 1.0), family("node_cpu", 1.0, 2.0), family("health", 0.0)]
    assert matching(families, ["node_*", "hea*"]) == ["health", "node_load1"]
    assert matching(families, []) == []


def test_pattern_may_omit_the_prefix():
    assert matching([family("node_load1", 1.0)], ["load*"]) == ["load1"]
    assert matching([family("node_load1", 1.0)], ["*load*"]) == ["node_load1"]


def causes(name, *given):
    """A family of causes: (value, labels) each."""
    return Family(name, "gauge", "x", tuple(Sample(name, tuple(d.items()), v) for v, d in given))


def test_cause_names_the_labels_of_series_above_0_the_highest_first():
    found = select(
        [
            family("node_health_metric", 2.0),
            causes(
                "node_health_metric_cause",
                (1.0, {"rule": "dimm_corrected", "dimm_label": "A1"}),
                (0.0, {"rule": "filesystem_errors", "device": "sda1"}),
                (2.0, {"UUID": "GPU-1", "pci_bus_id": "0000:3b:00.0", "rule": "gpu"}),
                (1.0, {"rule": "soft_lockup"}),
            ),
        ],
        ["health_metric"],
    )
    assert found.causes == {
        "health_metric": "gpu: UUID=GPU-1, pci_bus_id=0000:3b:00.0; dimm_corrected: dimm_label=A1; soft_lockup"
    }


def test_only_a_value_of_the_same_source_has_a_cause_and_many_are_counted():
    many = causes("x_cause", *((1.0, {"device": f"sd{letter}"}) for letter in "abcdef"))
    assert select([many], ["x"]).causes == {}
    assert select([many, family("x", 1.0, 2.0)], ["x"]).causes == {}
    (text,) = select([many, family("x", 6.0)], ["x"]).causes.values()
    assert text == "device=sda; device=sdb; device=sdc; device=sdd; and 2 more"
    assert select([causes("x_cause", (0.0, {"a": "b"})), family("x", 0.0)], ["x"]).causes == {}
