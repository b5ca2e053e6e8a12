"""The state of rules over a restart of the agent."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
import structlog

from agent.rules.state_file import StateSaver
from tests.agent.rules.node import LOAD, MEMORY, Node, group, one


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def saver(tmp_path) -> StateSaver:
    """Saves the state in a file while the machine keeps running."""
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    return StateSaver(tmp_path / "state", tmp_path / "proc", limit=1 << 20)


async def run_and_stop(node: Node, until) -> None:
    """Run the agent's own loop until it is stopped."""
    node.now[0] += 5_000
    running = asyncio.create_task(node.recorder.run())
    await until(lambda: node.accounts("plimsoll_rule_file_error") or node.loadavg.runs)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


GROWN = "groups:\n" + group("g", f"grown: increase({MEMORY}[1h])", f"load: {LOAD}")


async def test_saved_samples_count_after_a_restart(node_with, saver, until) -> None:
    first = node_with(saver=saver)
    first.rules(GROWN)
    await run_and_stop(first, until)
    second = node_with(saver=saver)
    second.now[0] = first.now[0] + 60_000
    second.meminfo.families = [one(MEMORY, 50)]
    second.after(5)
    assert second.values()["grown"] >= 49


async def test_invalid_rule_file_at_restart_keeps_saved_samples(node_with, saver, until) -> None:
    first = node_with(saver=saver)
    first.rules(GROWN)
    await run_and_stop(first, until)
    second = node_with(saver=saver)
    second.now[0] = first.now[0]
    second.rules("groups: [")
    await run_and_stop(second, until)
    third = node_with(saver=saver)
    third.now[0] = second.now[0] + 60_000
    third.rules(GROWN)
    third.meminfo.families = [one(MEMORY, 50)]
    third.after(5)
    assert third.values()["grown"] >= 49


async def test_unwritable_state_file_stops_nothing_and_is_logged(
    node_with, saver, until, tmp_path, logged
) -> None:
    (tmp_path / "state").mkdir()
    node = node_with(saver=saver)
    node.rules(GROWN)
    await run_and_stop(node, until)
    assert node.values()["load"] == 1
    said = [line["event"] for line in logged if line["log_level"] in {"warning", "error"}]
    assert said == ["saved samples for rules are dropped", "samples for rules are not saved"]
