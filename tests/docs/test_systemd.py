"""The systemd unit is valid, and its flags are those of the agent."""

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import agent.config

UNIT = Path(__file__).parents[2] / "examples" / "systemd" / "plimsoll-agent.service"


def test_agent_accepts_the_flags_of_the_unit():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(UNIT)
    program, *flags = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "plimsoll-agent"
    settings = agent.config.parse([one for one in flags if one != "$ARGS"], {}, hostname="host")
    assert not settings.evaluator_address


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path):
    text = UNIT.read_text().replace("/opt/plimsoll/bin/plimsoll-agent", shutil.which("true"))
    (tmp_path / UNIT.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert UNIT.name not in done.stderr
