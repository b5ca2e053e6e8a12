"""A demo runs to its end with status 0, or stops at the first missing observation with status 1.

tests/newcomer runs one as a program, with `make demo`.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from sandbox.cluster import ClusterSpec
from sandbox.config import DemoSettings
from sandbox.demo.narrator import Narrator, NotSeenError
from sandbox.demo.stage import Demo, run_demo
from sandbox.main import DEMOS
from tests import chromium
from tests.preloaded import Cluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.features(
        *("evictions", "scorers", "gangs", "node_actions", "problems", "history", "pages")
    ),
]


def commands(text):
    """The command lines of a demo: those indented by five."""
    return re.findall(r"^ {5}(\S.*)$", text, re.MULTILINE)


def assert_pasteable(line):
    """An existing program and existing files, with nothing omitted."""
    program, *arguments = shlex.split(line)
    assert program in {"export", "kubectl"} or shutil.which(program), line
    assert "..." not in line
    for argument in arguments:
        if argument.startswith("/"):
            assert Path(argument).exists(), line


@pytest.mark.parametrize("story", DEMOS)
async def test_shipped_demo_runs_to_its_end_and_its_commands_can_be_pasted(capsys, story, tmp_path):
    """Each is complete, with paths relative to the current directory."""
    folder = tmp_path / "with a space"
    settings = DemoSettings(dir=str(folder))
    status = await run_demo(DEMOS[story], settings, make_cluster=Cluster)
    said, complained = capsys.readouterr()
    assert (status, complained) == (0, ""), said
    assert f"All {said.count('✓')} expected effects were observed" in said
    assert [line for line in said.splitlines() if "✓" in line and len(line) > 80] == []
    lines = commands(said)
    assert lines[0] == f"export KUBECONFIG='{folder}/kubeconfig'"
    for line in lines:
        assert_pasteable(line)
    assert f"--dir={folder}" in shlex.split(lines[-1])
    assert shlex.split(lines[-1])[1] == "up"
    assert (folder / "demo.html").as_uri() in said
    if story == "health-metric":
        await check_saved(folder / "demo.html")


async def check_saved(file):
    """It shows what happened, in local times, and asks no server."""
    async with (
        chromium.launched() as browser,
        chromium.tab(browser, timezone_id="Asia/Kolkata") as tab,
    ):
        await tab.show(file.as_uri())
        assert (tab.errors, tab.requests) == ([], [file.as_uri()])
        text = await tab.page.inner_text("body")
        for word in (
            "violated",
            "cleared",
            "evicted",
            "placed",
            "health_metric Equals 2",
            "node-b",
        ):
            assert word in text
        assert await tab.page.locator("svg.strip path").count() > 0
        assert await tab.page.locator("a[href]:not([href^='#']), form, nav, button").count() == 0
        assert "UTC" in await tab.page.locator("main time").first.get_attribute("title")
        colour = "getComputedStyle(document.querySelector('path.is-violated')).fill"
        assert await tab.page.evaluate(colour) != "rgb(0, 0, 0)"


async def test_failed_demo_ends_with_the_logs_of_the_programs(tmp_path, capsys):
    async def run_steps(stage):
        stage.narrator.step("Nothing will come of this")
        raise NotSeenError("a miracle")

    play = Demo(
        "A title", lambda folder: ClusterSpec(dir=folder, nodes=("node-a",)), run_steps, "up"
    )
    assert await run_demo(play, DemoSettings(dir=str(tmp_path)), make_cluster=Cluster) == 1
    said = capsys.readouterr().out
    assert "«a miracle» was not observed" in said
    evaluators = [line for line in said.splitlines() if "evaluator: " in line]
    assert len(evaluators) == 3
    assert not any("stopping" in line for line in evaluators)
    assert "expected effects were observed" not in said


async def test_narrator_times_out(capsys):
    async def never():
        return None

    with pytest.raises(NotSeenError, match="snow"):
        await Narrator(patience=0).wait_for("snow", never)
    assert "✗ snow" in capsys.readouterr().out
