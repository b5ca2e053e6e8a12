"""The demo of placement."""

import xml.etree.ElementTree as ElementTree

import pytest

from sandbox.config import DemoSettings
from sandbox.demo.placement import run_placement
from sandbox.main import main

SMALL = ("--nodes=4", "--load=0.5", "--for=30m")


@pytest.mark.e2e
async def test_both_runs_are_compared_and_drawn(tmp_path, capsys):
    assert await run_placement(DemoSettings(dir=str(tmp_path / "new")), arguments=SMALL) == 0
    told = capsys.readouterr().out
    assert told.count("node-minutes over 80 % of CPU") == 2
    for name in ("steady", "burst"):
        picture = ElementTree.parse(tmp_path / "new" / f"placement-{name}.svg").getroot()
        assert len([one for one in picture.iter() if one.tag.endswith("polyline")]) == 2 * 4


@pytest.mark.e2e
async def test_failed_simulation_is_shown(tmp_path, capsys):
    assert await run_placement(DemoSettings(dir=str(tmp_path)), arguments=("--nodes=0",)) == 1
    assert "must be a whole number from 1 to 5000" in capsys.readouterr().out


def test_help_names_the_demo(capsys):
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    assert "placement" in capsys.readouterr().out
