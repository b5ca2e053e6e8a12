"""A collector is deleted with its file or folder and its tests; nothing else names it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collectors import registry
from tests.checkout import ROOT, checkout, scrape  # noqa: F401 (a fixture)

pytestmark = pytest.mark.e2e

WITHOUT = """
import os, sys
farm, names = sys.argv[1], sys.argv[2:]
import argparse, asyncio, json, urllib.parse, structlog, plimsoll.commandline, plimsoll.flags, plimsoll.logs
for name in names:
    if os.fork() == 0:
        sys.path.insert(0, f"{farm}/{name}")
        from agent import config
        from collectors import registry
        assert registry.__file__.startswith(farm), registry.__file__
        assert sorted(registry.COLLECTORS) == sorted(set(names) - {name})
        parser = config.Parser("agent", about="")
        config.add_flags(parser)
        flags = {flag for action in parser._actions for flag in action.option_strings}
        assert f"--collector.{name}" not in flags
        assert len(flags) > 100
        assert sorted(config.parse([], {}, hostname="a").collectors) == sorted(
            name for name, entry in registry.COLLECTORS.items() if entry.on
        )
        os._exit(0)
    _, status = os.wait()
    assert status == 0, name
"""


@pytest.mark.parametrize(
    ("name", "flag", "series"),
    [
        ("cpu", "collector.cpu.info", "node_cpu_seconds_total"),  # a folder
        ("netdev", "collector.netdev.device-exclude", "node_network_receive_bytes_total"),
        ("ntp", "collector.ntp.server", "node_ntp_"),  # a module
    ],
)
def test_collector_is_deleted_with_its_files(checkout, name: str, flag: str, series: str) -> None:  # noqa: F811
    assert flag in checkout.run("python", "-P", "-m", "agent", "--help")
    checkout.remove(f"collectors/{name}.py", f"collectors/{name}")
    checkout.remove(f"tests/collectors/test_{name}.py", f"tests/collectors/{name}")
    text = checkout.run("python", "-P", "-m", "agent", "--help")
    assert not re.search(rf"collector\.{name}\b", text)
    with checkout.agent() as address:
        found = scrape(address)
    assert "node_load1 " in found
    assert series not in found
    checkout.run("python", "-P", "docs/generate.py")
    checkout.check()
    checkout.run("pytest", "--collect-only", "-q", "tests/collectors")
    assert f"`{name}`" not in (checkout.root / "docs/collectors.md").read_text()


def test_command_line_is_read_without_any_one_collector(tmp_path: Path) -> None:
    names = list(registry.available())
    entries = [path for path in (ROOT / "collectors").iterdir() if path.name != "__pycache__"]
    for name in names:
        folder = tmp_path / name / "collectors"
        folder.mkdir(parents=True)
        for path in entries:
            if path.stem != name:
                (folder / path.name).symlink_to(path)
    ran = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT, str(tmp_path), *names],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
