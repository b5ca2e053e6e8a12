"""The Secret of the history, written by an attacker: it costs itself, and shows no namespace what is another's."""

import base64
import gzip
import json

import pytest
from prometheus_client import CollectorRegistry

from evaluator.features.history.archive import NAME
from evaluator.features.history.history import History, Query
from evaluator.features.history.recorder import HistoryMetrics
from evaluator.features.history.shared import SharedActions, _parse

pytestmark = pytest.mark.features("history")

NOW = 1_700_000_000.0
KINDS = ("evicted", "written")


def action(sequence, **fields):
    usual = {"writer": "0123456789ab", "sequence": sequence, "at": NOW, "kind": "evicted"}
    return json.dumps(usual | fields).encode()


def chunk(*lines):
    return base64.b64encode(gzip.compress(b"\n".join(lines), mtime=0)).decode()


def secret(**data):
    body = {"metadata": {"name": NAME, "resourceVersion": "7"}, "data": data}
    return json.dumps(body).encode()


@pytest.fixture
def read():
    """Read an object as the attacker left it; return the history."""

    async def run(raw):
        history = History(8 << 20, 86_400.0, KINDS)
        shared = SharedActions(
            history,
            None,
            "plimsoll",
            HistoryMetrics(CollectorRegistry()),
            is_leader=lambda: False,
            age=86_400.0,
            started=NOW,
            wall=lambda: NOW,
        )
        shared.put(_parse(raw))
        await shared.look()
        return history, shared

    return run


def shown(history, **query):
    return [one.fields for one in history.newest_first(Query(**query)) if one is not None]


async def test_text_is_one_printable_line_and_bounded(read):
    odd = "\x1b[31m\u202e" + "x\n" * 1_500
    history, _ = await read(secret(**{"actions-000000000001": chunk(action(1, text=odd, node=odd[:400]))}))  # fmt: skip
    [found] = shown(history)
    assert len(found["text"]) <= 1_000
    assert found["text"].isprintable()
    assert found["node"].isprintable()


async def test_action_of_two_namespaces_is_on_the_page_of_neither(read):
    lines = [
        action(1, policy="shop/demo", pod="shop/web"),
        action(2, policy="shop/demo", pod="other/secret"),
        action(3, policy="other/demo", pod="other/secret"),
    ]
    history, _ = await read(secret(**{"actions-000000000001": chunk(*lines)}))
    assert [one["pod"] for one in shown(history, namespace="shop")] == ["shop/web"]
    assert len(shown(history)) == 3


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[" * 5_000,
        b'{"metadata": 7}',
        b'{"metadata": {}, "data": {"actions-000000000001": 5}}',
        secret(x="y" * (4 << 20)),
    ],
    ids=["empty", "deep", "metadata", "number", "too large"],
)
async def test_object_that_cannot_be_read_is_said(read, raw):
    history, shared = await read(raw)
    assert shown(history) == []
    assert f"Secret {NAME}" in shared.shown().problem


async def test_times_beyond_the_calendar_are_left_out(read):
    lines = [action(n, at=at) for n, at in enumerate([1e18, -1e18, float("nan"), NOW], start=1)]
    history, _ = await read(secret(**{"actions-000000000001": chunk(*lines)}))
    assert [one["at"] for one in shown(history)] == [NOW]
