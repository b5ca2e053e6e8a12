"""Subscribers are notified of what the evaluator has to know at once."""

import pytest

from agent.rules.groups.results import Published
from agent.rules.subscribers import Subscribers

NAME = "node_each"
VALUE, OTHER = ([((("__name__", NAME),), value)] for value in (1.0, 2.0))


@pytest.mark.parametrize(
    ("before", "now", "notified"),
    [
        (Published(unread=frozenset({NAME})), Published(), True),
        (Published(unread=frozenset({"node_other"})), Published(), False),
        (Published(), Published(), False),
        (Published({NAME: VALUE}), Published(unread=frozenset({NAME})), True),
        (Published(unread=frozenset({NAME})), Published({NAME: VALUE}), True),
        (Published({NAME: VALUE}), Published({NAME: OTHER}), True),
        (Published({NAME: VALUE}), Published({NAME: VALUE}), False),
    ],
    ids=["unread-absent", "other", "absent", "value-unread", "unread-value", "changed", "same"],
)
def test_subscriber_is_notified_once_of_a_change(
    before: Published, now: Published, notified: bool
) -> None:
    calls: list[None] = []
    subscribers = Subscribers(0.01)
    subscribers.subscribe("stream", ["each"], lambda: calls.append(None))
    subscribers.sent("stream", before)
    subscribers.notify(now)
    subscribers.notify(now)
    assert len(calls) == notified
