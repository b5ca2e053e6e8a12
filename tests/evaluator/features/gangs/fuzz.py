"""Decoders of gangs as functions of bytes that fail if a decoder misbehaves: tests/fuzz runs them."""

import json

import msgspec

from evaluator.core.model.names import UNREADABLE
from evaluator.core.model.pod_record import PodRecord
from evaluator.features.gangs.core import admission
from evaluator.features.gangs.core.controllers import (
    KINDS,
    ControllerEvent,
    ControllerObject,
    PodController,
    last_failure,
)
from evaluator.features.gangs.core.membership import Membership, Owner
from evaluator.features.gangs.core.messages import CreateFailure, GangContext, blockers
from evaluator.features.gangs.core.podgroup import GangKey, PodGroup
from tests.fuzz.properties import as_json, documented, fits


def an_admission_review(data):
    with documented(admission.BadReviewError):
        told = json.loads(admission.answer(data).body)["response"]
        assert told["allowed"] is True, "a pod was rejected"
        if (given := as_json(data)) is not None:
            assert told["uid"] == given["request"]["uid"]


class _ControllerWithEvents(msgspec.Struct):
    controller: ControllerObject
    events: list[ControllerEvent]


def a_gang_context(data):
    """A controller and its events, with any content that a tenant can write."""
    with documented(*UNREADABLE):
        decoded = msgspec.json.decode(data, type=_ControllerWithEvents)
        pods = (lacking("a"), lacking("b"))
        for version, kind in KINDS:
            owner = Owner(kind, "train", "o", version)
            controller = PodController(owner, decoded.controller)
            message = controller.create_failure or last_failure(decoded.events)
            failures = {"o": CreateFailure(str(owner), message)} if message else {}
            context = GangContext({"o": controller}, failures)
            for sentence in blockers(PodGroup(GangKey("ns", "train"), pods), context):
                fits(sentence)


def lacking(name):
    """One pod of a gang of three."""
    about = Membership("train", 3, owner=Owner("Job", "train", "o"), gated=True)
    state = {"kind": "train", "node": "", "phase": "Pending", "bound": None, "created": 0.0}
    signs = {"leaving": False, "ready": False, "restarts": 0, "crashing": False, "crashed": None}
    fields = {"namespace": "ns", "name": name, "uid": name, "requests": ()}
    return PodRecord(**fields, **state, **signs, extra=about)


TARGETS = {"admission": an_admission_review, "gang_context": a_gang_context}
"""By the name of its folder in corpus/."""
