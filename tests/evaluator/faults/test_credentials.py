"""The evaluator's API token is replaced in time, or late."""

import pytest

pytestmark = pytest.mark.e2e


@pytest.fixture
async def guarded(world):
    """From now on the proxy checks tokens, also on open connections."""
    world.proxy.token = "first"
    world.proxy.spoil(world.proxy.faults)
    return world


async def test_new_token_is_used_without_interruption(guarded, token):
    token.write_text("second")
    guarded.proxy.token = "second"
    guarded.proxy.spoil(guarded.proxy.faults)
    guarded.nodes["node-b"].value = 1.0
    await guarded.until(lambda: "node-b" in guarded.labelled())
    assert not [line for line in guarded.evaluator.lines if "labels not written" in line]


async def test_expired_token_is_an_outage_until_it_is_replaced(guarded, token):
    guarded.proxy.token = "second"
    guarded.proxy.spoil(guarded.proxy.faults)
    await guarded.until(guarded.stale)
    asked = len(guarded.proxy.asked)
    await guarded.answered(30)
    assert len(guarded.proxy.asked) - asked < 60, "a rejection must not cause a flood of retries"
    token.write_text("second")
    await guarded.until(guarded.ready)
    guarded.nodes["node-b"].value = 1.0
    await guarded.until(lambda: "node-b" in guarded.labelled())
    assert {status for status, _ in guarded.answers} == {200}
