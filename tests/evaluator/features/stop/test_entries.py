"""What the object of the stop says: any content is read, and what is unreadable freezes whatever it may mean."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.stops import NO_STOPS, Stop
from evaluator.features.stop.entries import LARGEST, MOST_ENTRIES, StopEntry, parse

KEY, OTHER = PolicyKey("shop", "web"), PolicyKey("shop", "db.v2")
FROZEN = Stop(frozen=True)
ALICE = {"mode": "freeze", "by": "alice", "at": "2026-11-20T09:15:04Z", "reason": "migration"}


def stop_object(data=None, **fields):
    values = {k: v if isinstance(v, str) else json.dumps(v) for k, v in (data or {}).items()}
    body = {"metadata": {"name": "plimsoll-stop"}, "data": values} | fields
    return parse(json.dumps(body).encode())


def test_object_without_entries_stops_nothing():
    for found in (stop_object(), parse(b'{"metadata":{"name":"plimsoll-stop"}}')):
        assert found.stops == NO_STOPS
        assert not found.stops.freeze


def test_entry_says_who_stopped_what_when_and_why():
    found = stop_object({"shop.web": ALICE})
    assert found.entry(OTHER) is None
    assert found.stops.stop(KEY) == FROZEN
    assert found.stops.permit(OTHER)
    assert found.entry(KEY).sentence == (
        "policy shop/web is frozen (alice, 2026-11-20T09:15:04Z: migration)"
    )


@pytest.mark.parametrize("text", ["", "storage migration tonight", "[1]", "5"])
def test_any_text_of_kubectl_freezes_and_is_the_reason(text):
    found = stop_object({"all": text})
    assert not found.stops.permit(KEY)
    assert found.entry(KEY).reason == text


def test_release_observes_and_a_policys_own_entry_counts_before_that_of_all():
    found = stop_object({"all": ALICE, "shop.web": ALICE | {"mode": "release"}})
    assert found.stops.permit(KEY)
    assert found.stops.stop(KEY).observed_by.startswith("plimsoll-stop (alice, 2026-11-20")
    assert not found.stops.permit(OTHER)
    found = stop_object({"all": ALICE | {"mode": "release"}, "shop.db.v2": ALICE})
    assert found.stops.stop(KEY).observed_by
    assert found.stops.stop(OTHER) == FROZEN


@pytest.mark.parametrize(
    "value",
    ["{", '{"mode":"Release"}', '{"mode":7}', '{"mode":null}', '{"mode":{}}', "{" * 5000, "{\x00}"],
)
def test_unreadable_entry_freezes_what_it_names_and_costs_no_other_entry_anything(value):
    found = stop_object({"shop.web": value, "shop.db.v2": ALICE | {"mode": "release"}})
    assert found.stops.stop(KEY) == FROZEN
    assert found.entry(KEY).problem
    assert found.stops.stop(OTHER).observed_by
    assert found.stops.permit(PolicyKey("a", "b"))


@pytest.mark.parametrize(
    "key",
    ["web", "shop_web", "All", "ALL", ".web", "shop.", "Shop.web", "shop.we\u202eb", "-.a", ""],
)
def test_key_that_names_nothing_freezes_all_policies_also_released_ones(key):
    found = stop_object({key: ALICE | {"mode": "release"}, "shop.web": ALICE | {"mode": "release"}})
    assert found.stops.stop(KEY) == FROZEN
    assert found.stops.others == FROZEN
    assert "is neither all nor <namespace>.<policy>" in found.entry(KEY).sentence


def test_binary_entry_freezes():
    found = stop_object(binaryData={"shop.web": "AAEC"})
    assert found.stops.stop(KEY) == FROZEN


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"data":{"all":5}}',
        b'{"data":{"all":"' + b"x" * LARGEST + b'"}}',
        json.dumps({"data": {f"a.p{i}": "" for i in range(MOST_ENTRIES + 1)}}).encode(),
        b'{"a":' * 3000,
    ],
)
def test_object_that_is_unreadable_or_too_large_freezes_all_policies(raw):
    found = parse(raw)
    assert found.stops.others == FROZEN
    assert len(found.entry(KEY).sentence) < 500


def test_hostile_texts_are_one_bounded_line():
    odd = "a\x1b[31m\n\u202e" + "x" * 100_000
    found = stop_object({"shop.web": {"by": odd, "at": odd, "reason": odd, "mode": odd}})
    sentence = found.entry(KEY).sentence
    assert sentence.isprintable()
    assert len(sentence) < 1000


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-23:00", "yesterday", -1e300, None, {}])
def test_time_that_cannot_be_written_is_left_out(at):
    assert stop_object({"all": ALICE | {"at": at}}).entry(KEY).at == ""


@given(
    st.dictionaries(st.text(max_size=30), st.text(max_size=60), max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    ),
)
def test_any_content_is_read(data, value):
    found = stop_object({**data, "shop.web": {"mode": value, "by": value, "at": value}})
    assert not found.stops.permit(KEY) or value == "release"
    for entry in found.entries:
        assert isinstance(entry, StopEntry)
        assert entry.sentence.isprintable()
