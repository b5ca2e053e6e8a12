"""Failing rules on the wire: bounded, printable, and unchanged by a report that does not name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import codec, telemetry_pb2
from wire.codec import MalformedReportError
from wire.failing_rules import FailingRule, FailingRules

METRICS = ("cpu", "health_metric", "memory", "pressure", "synthetic")


RULE = FailingRule("", "group", "record", "evaluation", "many to many")


def sent(failing, *, full=False):
    report = telemetry_pb2.Report(full=full)
    codec.add_failing_rules(report, failing)
    return telemetry_pb2.Report.FromString(report.SerializeToString())


def test_failing_rules_are_decoded():
    file = FailingRule("a.yaml", "", "", "invalid", "no YAML")
    delta = codec.decode(sent({RULE: 61.4, file: 0.0}), METRICS)
    assert delta.failing == FailingRules({RULE: 61, file: 0})


def test_report_without_failing_rules_changes_them_only_if_it_is_full():
    assert codec.decode(telemetry_pb2.Report(), METRICS).failing is None
    assert codec.decode(telemetry_pb2.Report(full=True), METRICS).failing == FailingRules()
    assert codec.decode(sent({}), METRICS).failing == FailingRules()


@pytest.mark.parametrize("character", ["x", "\U0001f600", "\udcff", "\n", "\u202e"])
def test_failing_rules_of_any_text_fit_into_their_bytes_and_the_others_are_counted(character):
    text = character * 1000
    rules = {FailingRule("", "g", f"r{n}", "evaluation", text): 0.0 for n in range(50)}
    report = sent(rules)
    assert report.ByteSize() < 9 << 10
    found = codec.decode(report, METRICS).failing
    assert 0 < len(found.seconds) <= 20
    assert len(found.seconds) + found.more == 50


@pytest.mark.parametrize(
    "entries",
    [[{"rule": f"r{n}"} for n in range(21)], *([{name: "x" * 201}] for name in RULE._fields)],
)
def test_implausible_failing_rules_are_malformed(entries):
    report = telemetry_pb2.Report()
    for entry in entries:
        report.failing_rules.rules.add(**entry)
    with pytest.raises(MalformedReportError):
        codec.decode(report, METRICS)


@given(st.text(max_size=200))
def test_texts_of_failing_rules_become_one_printable_line(text):
    report = telemetry_pb2.Report()
    report.failing_rules.rules.add(**dict.fromkeys(RULE._fields, text))
    [rule] = codec.decode(report, METRICS).failing.seconds
    for found in rule:
        assert found.isprintable()
        assert len(found) <= 200
