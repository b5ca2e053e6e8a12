"""Statuses of policies as functions of bytes that fail if one misbehaves: tests/fuzz runs them."""

import msgspec

from evaluator.core.kube.watches import decode_policy
from evaluator.core.policy.decide import decide
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.readings.store import Store
from evaluator.features.status.controller import transitions
from evaluator.features.status.plan import ReportedState, previously_reported, statuses
from tests.fuzz.properties import as_json, is_json


def a_policy(data):
    """`data` is the spec: its status fits into conditions."""
    if not is_json(data):
        return
    raw = b'{"metadata":{"name":"demo","namespace":"default","generation":1},"spec":%s}' % data
    found = decode_policy(msgspec.Raw(raw))
    store = Store(stale_after=30.0, started=0.0)
    store.subscribe(found.metrics)
    decisions = decide([found], ["node-a"], store, now=1.0)
    for condition in dict(statuses(decisions, ()))[found.key].conditions:
        assert len(condition.message) <= 32_768, "more than a condition can hold"


def a_status(data):
    """A policy's status with any content: users may have write access to it."""
    if isinstance(said := as_json(data), dict):
        now = ReportedState(frozenset(), frozenset())
        assert previously_reported(said, now, 1).violated <= set(StrategyName)
        for status, since in transitions(said).values():
            assert isinstance(status + since, str)


TARGETS = {"policy": a_policy, "status": a_status}
"""By the name of its folder in a corpus/."""
