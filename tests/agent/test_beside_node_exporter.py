"""Flags mean what they mean to Debian's node_exporter, where it is installed."""

import shutil
import urllib.request

import pytest

from collectors.shared.formats.patterns import DeviceFilter, regexp
from tests.agent.beside import LISTEN, PEER, PORT, running

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which(PEER), reason="prometheus-node-exporter is not installed"),
]

DEVICES = ("lo", "eth0", "eth1", "veth12ab", "ifb0", "IFB1", "cali\u0661", "wg0@if3", "br-0")
NET_DEV = "Inter-|   Receive   |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n"


def exported(tmp_path, *flags):
    """Return the devices that node_exporter exports; none if it exits."""
    (tmp_path / "net").mkdir(exist_ok=True)
    lines = "".join(f"{device}: {' 1' * 16}\n" for device in DEVICES)
    (tmp_path / "net/dev").write_text(NET_DEV + lines)
    fixed = ("--collector.disable-defaults", "--collector.netdev", "--no-collector.netdev.netlink")
    argv = [PEER, LISTEN, f"--path.procfs={tmp_path}", *fixed, *flags]
    try:
        with (
            running(argv, PORT) as address,
            urllib.request.urlopen(f"http://{address}/metrics") as answer,
        ):
            text = answer.read().decode()
    except AssertionError:  # it exits
        return []
    begin = 'node_network_receive_bytes_total{device="'
    found = (line for line in text.splitlines() if line.startswith(begin))
    return [line.removeprefix(begin).partition('"')[0] for line in found]


@pytest.mark.parametrize(
    "pattern",
    [
        "^ifb[[:digit:]]+$",
        r"^[a-z]+\pN$",
        r"^eth\d\z",
        r"^\Qwg0@if\E",
        "(?i)^ifb",
        "^(veth.*|[a-f0-9]{15})$",
        "(?=eth)",
        r"eth\Z",
        "(",
    ],
)
def test_a_pattern_excludes_the_same_devices(tmp_path, pattern):
    theirs = exported(tmp_path, f"--collector.netdev.device-exclude={pattern}")
    try:
        regexp(pattern)
    except ValueError:
        assert not theirs
        return
    mine = DeviceFilter("", pattern)
    assert sorted(theirs) == sorted(device for device in DEVICES if not mine.ignores(device))
