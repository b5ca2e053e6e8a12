"""The agent exports the series of node_exporter on this machine, with all collectors that both have."""

import re
import shutil
import subprocess
import sys
import time
import urllib.request

import pytest

from collectors.registry import COLLECTORS
from tests.agent.beside import LISTEN, PEER, PORT, running
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which(PEER), reason=f"{PEER} is not installed"),
]
# They need a server or permissions, export files, or depend on the driver.
LEFT_OUT = {"ethtool", "logind", "ntp", "perf", "runit", "supervisord", "systemd", "textfile"}
# Newer releases also leave out zram.
SAME_DISKS = "--collector.diskstats.device-exclude=^(z?ram|loop|fd)\\d+$"

# What node_exporter 1.12 exports as -1 or 0 where a device or this kernel does not have it (docs/collectors.md).
PLACEHOLDERS = re.compile(
    r"node_filesystem_purgeable_bytes|node_pcidevice_((current|max)_link|sriov)_\w+"
)

Series = dict[str, list[frozenset[tuple[str, str]]]]
"""Label sets by metric."""


@pytest.fixture(scope="module")
def scrape():
    """Scrape the agent, or with `peer` node_exporter."""
    listed = subprocess.run([PEER, "--help"], capture_output=True, text=True)
    theirs = set(re.findall(r"--(?:\[no-\])?collector\.(\w+) ", listed.stdout + listed.stderr))
    names = sorted(theirs & COLLECTORS.keys() - LEFT_OUT)
    assert len(names) > 40
    flags = ("--collector.disable-defaults", *(f"--collector.{name}" for name in names))
    agent = (sys.executable, "-P", "-m", "agent", LISTEN, SAME_DISKS, *flags)
    with (
        running(agent, PORT) as own,
        running((PEER, LISTEN, SAME_DISKS, *flags), PORT) as peer,
    ):

        def text(*, of_peer: bool) -> str:
            address = peer if of_peer else own
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE) as reply:
                content: str = reply.read().decode()
            return content

        yield text


def series(text: str) -> Series:
    """Return the series of collectors."""
    found: Series = {}
    for name, labels in re.findall(r"^(node_\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)
        found.setdefault(name, []).append(frozenset(pairs))
    found.pop("node_exporter_build_info", None)
    return found


def types(text: str) -> dict[str, str]:
    """Return the types of collectors' metrics."""
    return dict(re.findall(r"^# TYPE (node_\w+) (\w+)$", text, re.MULTILINE))


def missing(own: Series, peer: Series) -> list[tuple[str, frozenset[tuple[str, str]]]]:
    """Return the peer's series without an own one; own ones may have more labels, as in newer releases."""
    return [
        (name, labels)
        for name, label_sets in peer.items()
        if PLACEHOLDERS.fullmatch(name) is None
        for labels in label_sets
        if not any(labels <= found for found in own.get(name, ()))
    ]


def test_every_series_of_node_exporter_is_exported(scrape) -> None:
    deadline = time.monotonic() + PATIENCE
    while lost := missing(series(scrape(of_peer=False)), series(scrape(of_peer=True))):
        assert time.monotonic() < deadline, lost  # something changed between the two scrapes
        time.sleep(0.1)


def test_types_are_those_of_node_exporter(scrape) -> None:
    own, peer = types(scrape(of_peer=False)), types(scrape(of_peer=True))
    assert len(own.keys() & peer.keys()) > 200
    assert {n: (own[n], peer[n]) for n in own.keys() & peer.keys() if own[n] != peer[n]} == {}
