"""The protocol of one stream, without a network: what is decoded and what is rejected."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.readings.store import Store
from evaluator.core.sources.agents.stream import StreamProtocol, parse
from wire import telemetry_pb2
from wire.codec import MalformedReportError

METRICS = ("a", "b", "c")


def said(**fields):
    return telemetry_pb2.Report(**{"node_name": "node-a", "generation": 1, **fields})


@pytest.fixture
def talk():
    made = StreamProtocol("node-a")
    made.subscribe(1, METRICS)
    return made


def test_reports_are_decoded_by_their_generation_until_a_later_one_is_answered(talk):
    talk.decode(said(full=True, indices=[0], values=[1.0]), known=False)
    talk.subscribe(2, ("z", "a"))
    assert talk.decode(said(indices=[0], values=[2.0]), known=True).values == {"a": 2.0}
    after = talk.decode(said(generation=2, full=True, indices=[0], values=[3.0]), known=True)
    assert after.values == {"z": 3.0}
    with pytest.raises(MalformedReportError, match="generation 1 was never subscribed to"):
        talk.decode(said(full=True), known=True)


def test_only_the_latest_of_many_unanswered_subscriptions_are_kept(talk):
    for generation in range(2, 1000):
        talk.subscribe(generation, METRICS)
    assert len(talk._subscriptions) == 16
    with pytest.raises(MalformedReportError, match="never subscribed"):
        talk.decode(said(full=True), known=True)
    assert talk.decode(said(generation=999, full=True), known=True)


def test_more_readings_than_metrics_are_rejected_before_decoding(talk):
    with pytest.raises(MalformedReportError, match="4 readings of the 3 metrics subscribed to"):
        talk.decode(said(full=True, absent=[0, 1, 2, 2**32 - 1]), known=True)


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\x05abc", b"\x0a\x02\xff\xfe", b"\x08"])
def test_invalid_bytes_cause_no_traceback(garbage):
    with pytest.raises(MalformedReportError, match="not a Report"):
        parse(garbage)


indices = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 2**32 - 1)), max_size=5)
reports = st.builds(
    telemetry_pb2.Report,
    node_name=st.sampled_from(["node-a", "node-b", ""]),
    generation=st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1)),
    full=st.booleans(),
    indices=indices,
    values=st.lists(st.floats(), max_size=5),
    absent=indices,
    several=st.lists(
        st.builds(
            telemetry_pb2.Several, index=st.integers(0, 4), samples=st.integers(0, 2**32 - 1)
        ),
        max_size=3,
    ),
    unread=indices,
)


@given(st.lists(reports, max_size=8))
def test_any_report_is_of_its_own_node_or_rejected(said_by_it):
    """The store accepts all decoded reports."""
    talk, store = StreamProtocol("node-a"), Store(stale_after=30.0, started=0.0)
    store.subscribe(METRICS)
    talk.subscribe(1, METRICS)
    talk.subscribe(2, METRICS[:2])
    for report in said_by_it:
        try:
            delta = talk.decode(report, known=store.knows("node-a"))
        except MalformedReportError:
            return
        assert report.node_name == "node-a"
        assert {*delta.values, *delta.absent, *delta.several, *delta.unread} <= set(METRICS)
        store.report("node-a", delta, 1.0)
    assert not store.knows("node-b")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_rejected(garbage):
    talk = StreamProtocol("node-a")
    talk.subscribe(1, METRICS)
    with contextlib.suppress(MalformedReportError):
        talk.decode(parse(garbage), known=True)
