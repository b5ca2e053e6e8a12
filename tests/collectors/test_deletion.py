"""A collector is deleted with its file or folder and its tests; nothing else names it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collectors import registry
from tests.checkout import ROOT, Checkout, checkout, scrape  # noqa: F401 (a fixture)

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


DELETED = {
    "cpu": ("collector.cpu.info", "node_cpu_seconds_total"),  # a folder
    "netdev": ("collector.netdev.device-exclude", "node_network_receive_bytes_total"),
    "ntp": ("collector.ntp.server", "node_ntp_"),  # a module
}
"""A flag, and the beginning of a series, by name of the collector."""


def files_of(name: str) -> list[str]:
    places = (f"collectors/{name}", f"tests/collectors/{name}", f"tests/collectors/test_{name}")
    return [path for place in places for path in (place, f"{place}.py")]


def test_collectors_are_deleted_with_their_files(checkout: Checkout) -> None:  # noqa: F811
    """Three at once; none names another of them, which would be deleted too."""
    for name in DELETED:
        own = [path for place in files_of(name) for path in checkout.modules(place)]
        assert own
        others = rf"\bcollectors\.({'|'.join(DELETED.keys() - {name})})\b"
        assert [path for path in own if re.search(others, path.read_text())] == []
    text = checkout.run("python", "-P", "-m", "agent", "--help")
    assert [flag for flag, _ in DELETED.values() if flag not in text] == []
    for name in DELETED:
        checkout.remove(*files_of(name))
    text = checkout.run("python", "-P", "-m", "agent", "--help")
    with checkout.agent() as address:
        found = scrape(address)
    assert "node_load1 " in found
    for name, (_, series) in DELETED.items():
        assert not re.search(rf"collector\.{name}\b", text)
        assert series not in found
    checkout.run("python", "-P", "docs/generate.py")
    checkout.run("ruff", "check", "--no-cache", ".")
    checkout.run("lint-imports", "--no-cache")
    checkout.run("python", "-P", "checks/tree.py")
    checkout.run("pytest", "--collect-only", "-q", "tests/collectors")
    page = (checkout.root / "docs/collectors.md").read_text()
    assert [name for name in DELETED if f"`{name}`" in page] == []


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
