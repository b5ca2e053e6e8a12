"""Reports on the wire: deltas lose nothing, absence is never a number, and old bytes are decoded."""

import math

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from wire import codec, failing_rules, problems, telemetry_pb2
from wire.codec import Delta, MalformedReportError, Snapshot

METRICS = ("cpu", "health_metric", "memory", "pressure", "synthetic")

# The state of one metric in one report: a value, several samples, unread, absent (None), or absent since the agent's start.
value = st.floats(allow_nan=True, allow_infinity=True)
facts = st.one_of(
    st.none(),
    value,
    st.tuples(st.just("several"), st.integers(2, 2**31 - 1)),
    st.just("unread"),
    st.just("never had"),
)


@st.composite
def snapshots(draw):
    found = {metric: draw(facts) for metric in METRICS}
    return Snapshot(
        {m: fact for m, fact in found.items() if isinstance(fact, float)},
        {m: fact[1] for m, fact in found.items() if isinstance(fact, tuple)},
        frozenset(m for m, fact in found.items() if fact == "unread"),
        never_had=frozenset(m for m, fact in found.items() if fact == "never had"),
    )


def encoded(now, last=None, metrics=METRICS):
    report = telemetry_pb2.Report(node_name="n", generation=1)
    return codec.encode(report, metrics, now, last).SerializeToString()


def decoded(wire, metrics=METRICS):
    return codec.decode(telemetry_pb2.Report.FromString(wire), metrics)


def told(known, delta):
    """The knowledge of a reader of all reports: metric → value, ("several", n), "absent" or "never had"; unread changes nothing."""
    known = dict(known)
    known |= dict.fromkeys(delta.absent, "absent")
    known |= dict.fromkeys(delta.never_had, "never had")
    known |= {metric: ("several", count) for metric, count in delta.several.items()}
    known |= delta.values
    return known


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return one == other


@given(st.lists(snapshots(), min_size=1, max_size=8))
def test_reader_of_all_reports_has_the_last_snapshot(rounds):
    known, last = {}, None
    for now in rounds:
        delta = decoded(encoded(now, last))
        known = told(known, delta)
        assert set(delta.unread) == now.unread
        for metric in METRICS:
            if metric in now.unread:
                continue
            several = now.several.get(metric)
            absent = "never had" if metric in now.never_had else "absent"
            fact = now.values.get(metric, ("several", several) if several else absent)
            assert same(known[metric], fact), metric
        last = now


@given(snapshots())
def test_unchanged_report_names_only_what_is_still_unread(now):
    report = telemetry_pb2.Report.FromString(encoded(now, now))
    assert not report.full
    assert not any((report.indices, report.values, report.several, report.absent, report.never_had))
    assert {METRICS[i] for i in report.unread} == now.unread


@given(snapshots())
def test_full_report_covers_every_metric(now):
    delta = decoded(encoded(now))
    assert {*delta.values, *delta.several, *delta.absent, *delta.unread} == set(METRICS)


def test_absence_is_explicit_and_not_zero():
    delta = decoded(encoded(Snapshot(), Snapshot({"cpu": 1.0})))
    assert delta.values == {}
    assert list(delta.absent) == ["cpu"]


def test_absence_since_the_start_of_the_agent_is_told_from_loss():
    delta = decoded(encoded(Snapshot(never_had=frozenset({"cpu"}))))
    assert (list(delta.never_had), set(delta.absent)) == (["cpu"], set(METRICS))
    delta = decoded(encoded(Snapshot(), Snapshot({"cpu": 1.0})))
    assert (list(delta.never_had), list(delta.absent)) == ([], ["cpu"])


def test_absent_metric_is_named_again_when_the_reason_changes():
    never = Snapshot(never_had=frozenset({"cpu"}))
    delta = decoded(encoded(Snapshot(), never))
    assert (list(delta.never_had), list(delta.absent)) == ([], ["cpu"])
    delta = decoded(encoded(never, Snapshot()))
    assert (list(delta.never_had), list(delta.absent)) == (["cpu"], ["cpu"])


def test_agents_without_the_field_say_nothing_of_absent_metrics():
    old = telemetry_pb2.Report.FromString(encoded(Snapshot(never_had=frozenset({"cpu"}))))
    old.ClearField("never_had")
    delta = decoded(old.SerializeToString())
    assert (list(delta.never_had), set(delta.absent)) == ([], set(METRICS))


def test_zero_is_a_value():
    delta = decoded(encoded(Snapshot({"cpu": 0.0})))
    assert delta.values == {"cpu": 0.0}
    assert "cpu" not in delta.absent


def test_large_integers_are_exact():
    assert decoded(encoded(Snapshot({"cpu": 2.0**53 - 1}))).values == {"cpu": 9007199254740991.0}


def test_unread_metric_that_disappears_is_reported_absent():
    delta = decoded(encoded(Snapshot(), Snapshot(unread=frozenset({"cpu"}))))
    assert list(delta.absent) == ["cpu"]


def test_value_that_was_unread_meanwhile_is_sent_again():
    delta = decoded(encoded(Snapshot({"cpu": 5.0}), Snapshot(unread=frozenset({"cpu"}))))
    assert delta.values == {"cpu": 5.0}


def test_empty_subscription_yields_heartbeats():
    assert decoded(encoded(Snapshot(), metrics=()), metrics=()) == Delta(
        {}, [], {}, set(), failing=failing_rules.NONE, problems=problems.NONE, causes={}
    )


def report(**fields):
    return telemetry_pb2.Report(node_name="n", generation=1, **fields)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (report(indices=[0, 1], values=[1.0]), "2 indices for 1 values"),
        (report(values=[1.0]), "0 indices for 1 values"),
        (report(indices=[5], values=[1.0]), "an index beyond the 5 metrics"),
        (report(absent=[2**32 - 1]), "an index beyond the 5 metrics"),
        (report(unread=[5]), "an index beyond the 5 metrics"),
        (report(several=[{"index": 5, "samples": 2}]), "an index beyond the 5 metrics"),
        (report(several=[{"index": 0, "samples": 1}]), "several .* 1 sample"),
        (report(several=[{"index": 0}]), "several .* 0 sample"),
        (report(several=[{"index": 0, "samples": 2**32 - 1}]), "several .* 4294967295 sample"),
        (report(indices=[0], values=[1.0], absent=[0]), "more than once"),
        (report(indices=[0, 0], values=[1.0, 2.0]), "more than once"),
        (report(unread=[1], several=[{"index": 1, "samples": 2}]), "more than once"),
        (report(absent=[0], never_had=[5]), "an index beyond the 5 metrics"),
        (report(full=True, never_had=[0] * 6), "an index beyond the 5 metrics"),
        (report(full=True, never_had=[0, 0]), "never had and that is not absent"),
        (report(never_had=[0]), "never had and that is not absent"),
        (report(full=True, unread=[0], never_had=[0]), "never had and that is not absent"),
        (
            report(full=True, indices=[0], values=[1.0], never_had=[0]),
            "never had and that is not absent",
        ),
    ],
)
def test_protocol_error_is_rejected_with_a_sentence(broken, sentence):
    with pytest.raises(MalformedReportError, match=sentence):
        codec.decode(broken, METRICS)


@given(
    st.lists(st.integers(0, 7), max_size=6),
    st.lists(value, max_size=6),
    st.lists(st.integers(0, 7), max_size=3),
    st.lists(st.integers(0, 7), max_size=3),
    st.lists(st.integers(0, 7), max_size=3),
    st.booleans(),
)
def test_any_report_is_decoded_or_rejected(indices, values, absent, unread, never_had, full):
    found = report(
        indices=indices, values=values, absent=absent, unread=unread, never_had=never_had, full=full
    )
    try:
        delta = codec.decode(found, METRICS)
    except MalformedReportError:
        return
    assert {*delta.values, *delta.absent, *delta.unread} <= set(METRICS)
    assert {*delta.never_had} <= {*delta.absent}


# The bytes that the first release sent. They must be decoded forever: agents and evaluators are upgraded separately.
FROZEN_REPORT = bytes.fromhex(
    "0a066e6f64652d61"  # node_name "node-a"
    "1205302e312e30"  # agent_version "0.1.0"
    "1803"  # generation 3
    "2001"  # full
    "2a020001"  # indices 0, 1
    "3210000000000000f83f0000000000000040"  # values 1.5, 2.0
    "3a0102"  # absent 2
    "420408031009"  # several: index 3, 9 samples
    "4a0104"  # unread 4
)
FROZEN_SUBSCRIPTION = bytes.fromhex(
    "0803"  # generation 3
    "120d6865616c74685f6d6574726963"  # metrics "health_metric"
    "12036d656d"  # and "mem"
    "188827"  # interval_ms 5000
)


def test_golden_bytes_of_a_report_are_decoded():
    message = telemetry_pb2.Report.FromString(FROZEN_REPORT)
    assert (message.node_name, message.agent_version) == ("node-a", "0.1.0")
    assert (message.generation, message.full) == (3, True)
    assert codec.decode(message, METRICS) == Delta(
        {"cpu": 1.5, "health_metric": 2.0},
        ["memory"],
        {"pressure": 9},
        {"synthetic"},
        failing=failing_rules.NONE,
        problems=problems.NONE,
        causes={},
    )
    assert message.SerializeToString(deterministic=True) == FROZEN_REPORT


def test_golden_bytes_of_a_subscription_are_decoded():
    message = telemetry_pb2.Subscription.FromString(FROZEN_SUBSCRIPTION)
    assert (message.generation, list(message.metrics)) == (3, ["health_metric", "mem"])
    assert message.interval_ms == 5000
    assert message.SerializeToString(deterministic=True) == FROZEN_SUBSCRIPTION


def test_unknown_fields_are_ignored():
    unknown = bytes.fromhex("fa01087768617465766572")  # field 31, "whatever"
    message = telemetry_pb2.Report.FromString(FROZEN_REPORT + unknown)
    assert codec.decode(message, METRICS).values == {"cpu": 1.5, "health_metric": 2.0}


def test_similar_names_are_decoded_by_metric():
    report = telemetry_pb2.Report()
    codec.add_similar(report, ["a", "b", "c"], {"c": ["cc", "node_c"], "a": []})
    delta = codec.decode(report, ["a", "b", "c"])
    assert delta.similar == {"a": (), "c": ("cc", "node_c")}
    assert codec.decode(telemetry_pb2.Report(), ["a"]).similar == {}


@pytest.mark.parametrize(
    "entries",
    [
        [(3, ["a"])],
        [(0, ["a", "b", "c", "d"])],
        [(0, ["a b"])],
        [(0, ["<script>"])],
        [(0, ["x" * 201])],
        [(0, [])] * 51,
    ],
)
def test_implausible_similar_names_are_malformed(entries):
    report = telemetry_pb2.Report()
    for index, names in entries:
        report.similar.add(index=index, names=names)
    with pytest.raises(MalformedReportError):
        codec.decode(report, ["a", "b", "c"])


def test_matching_names_are_decoded():
    report = telemetry_pb2.Report()
    codec.add_matching(report, ["node_load1", "plimsoll:load"])
    assert codec.decode(report, []).matching == ("node_load1", "plimsoll:load")


def test_matching_names_fit_a_report():
    many, long = telemetry_pb2.Report(), telemetry_pb2.Report()
    codec.add_matching(many, ["n"] * 501)
    codec.add_matching(long, ["n" * 200] * 500)
    assert len(many.matching) == 500
    assert len(long.matching) == (24 << 10) // 200


@pytest.mark.parametrize("names", [["a b"], ["x" * 201], ["n"] * 501])
def test_implausible_matching_names_are_malformed(names):
    with pytest.raises(MalformedReportError, match="matching names"):
        codec.decode(telemetry_pb2.Report(matching=names), [])


def test_causes_are_replaced_when_they_change_and_go_with_a_full_report():
    sick = Snapshot({"health_metric": 2.0}, causes={"health_metric": "gpu: UUID=GPU-1"})
    healthy = Snapshot({"health_metric": 0.0})
    assert decoded(encoded(sick)).causes == {"health_metric": "gpu: UUID=GPU-1"}
    assert decoded(encoded(sick, sick)).causes is None
    assert decoded(encoded(healthy, sick)).causes == {}
    assert decoded(encoded(healthy)).causes == {}
    other = Snapshot({"health_metric": 2.0}, causes={"health_metric": "gpu: UUID=GPU-2"})
    assert decoded(encoded(other, sick)) == Delta(
        {}, [], {}, set(), causes={"health_metric": "gpu: UUID=GPU-2"}
    )


def test_reports_with_and_without_causes_are_read_by_older_and_newer_evaluators():
    sick = Snapshot({"health_metric": 2.0}, causes={"health_metric": "gpu: UUID=GPU-1"})
    newer, older = encoded(sick), encoded(Snapshot(sick.values))
    report = telemetry_pb2.Report.FromString(newer)
    report.ClearField("causes")
    # an older evaluator skips the unknown field, and an older agent does not send it
    assert report.SerializeToString() == older
    assert newer.startswith(older)
    assert decoded(older).values == decoded(newer).values
    assert decoded(older).causes == {}


@pytest.mark.parametrize(
    "causes",
    [
        [{"index": len(METRICS), "text": "x"}],
        [{"index": 0, "text": "x" * (codec.LONGEST_CAUSE + 1)}],
        [{"index": 0, "text": "x"}] * (codec.MOST_CAUSES + 1),
    ],
)
def test_hostile_causes_are_refused(causes):
    report = telemetry_pb2.Report(node_name="n", generation=1, causes={"causes": causes})
    with pytest.raises(MalformedReportError):
        codec.decode(report, METRICS)


def test_text_of_causes_is_printable_and_bounded():
    report = telemetry_pb2.Report(causes={"causes": [{"index": 0, "text": "a\x1b[31m\nb"}]})
    assert codec.decode(report, METRICS).causes == {"cpu": "a\\u001b[31m b"}
    many = [f"m{number}" for number in range(100)]
    found = Snapshot(causes=dict.fromkeys(many, "x" * 1000))
    delta = decoded(encoded(found, Snapshot(), many), many)
    assert sum(map(len, delta.causes.values())) <= codec.MOST_CAUSES_BYTES


def without_field(name):
    """The class of reports before a field was added."""
    file = descriptor_pb2.FileDescriptorProto()
    telemetry_pb2.DESCRIPTOR.CopyToProto(file)
    [message] = [one for one in file.message_type if one.name == "Report"]
    [number] = [number for number, one in enumerate(message.field) if one.name == name]
    del message.field[number]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("plimsoll.telemetry.v1.Report")
    return message_factory.GetMessageClass(found)


def test_evaluator_without_the_field_reads_an_absent_metric_as_before():
    old = without_field("never_had")
    wire = encoded(Snapshot({"memory": 1.0}, never_had=frozenset({"cpu"})))
    found = old.FromString(wire)
    assert METRICS.index("cpu") in found.absent
    assert not hasattr(found, "never_had")
    lost = old.FromString(encoded(Snapshot(), Snapshot(never_had=frozenset({"cpu"}))))
    assert (list(lost.absent), lost.full) == ([METRICS.index("cpu")], False)
