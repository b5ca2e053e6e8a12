"""Events within the limits of Kubernetes: object names and messages."""

import re

import pytest

from evaluator.core.model import events
from evaluator.core.model.events import EventSpec

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NOTICE = EventSpec("Normal", "GangIncomplete", "2 of 4 exist")


@pytest.mark.parametrize(
    "name", ["p", "a" * 253, "a" * 199 + "-b", "a" * 199 + ".b", "a" * 198 + "-.b" + "c" * 50]
)
def test_event_name_is_valid(name):
    about = events.on_pod("ns", name, "uid")
    named = events.name(about, events.suffix_of(about, "GangIncomplete"))
    assert SUBDOMAIN.fullmatch(named)
    assert len(named) <= 253


def test_event_name_is_derived_from_pod_and_reason():
    one, other = events.on_pod("ns", "p", "uid-1"), events.on_pod("ns", "p", "uid-2")
    names = {
        events.name(about, events.suffix_of(about, reason))
        for about in (one, other, one)
        for reason in ("GangIncomplete", "GangWaitsForTurn")
    }
    assert len(names) == 4


def test_event_has_subject_reason_and_count():
    about = events.on_pod("ns", "p", "uid")
    body = events.event(about, NOTICE, suffix="x", count=3, at="2026-01-01T00:00:00Z")
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "uid",
    }
    assert (body["type"], body["reason"], body["message"]) == (
        "Normal",
        "GangIncomplete",
        "2 of 4 exist",
    )
    assert body["metadata"] == {"name": "p.x", "namespace": "ns"}
    assert body["count"] == 3


def test_message_is_cut_to_the_limit_of_kubernetes():
    long = EventSpec("Normal", "R", "x" * 5000)
    body = events.event(events.on_pod("ns", "p", "u"), long, suffix="x", count=1, at="T")
    assert len(body["message"]) == 1024


def test_event_of_a_node_is_one_that_kubectl_describe_selects():
    """Its object has no namespace; the Event is in `default`, as the API server requires."""
    about = events.on_node("node-a", "uid-a")
    made = events.event(about, NOTICE, suffix="s", count=1, at="2026-11-20T09:15:04Z")
    assert made["metadata"]["namespace"] == "default"
    assert "namespace" not in made["involvedObject"]
    assert made["involvedObject"]["uid"] == "uid-a"
