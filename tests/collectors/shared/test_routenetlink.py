import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from ipaddress import ip_address
from pathlib import Path

import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared import routenetlink
from collectors.shared.routenetlink import (
    InterfaceAddress,
    Qdisc,
    parse_addresses,
    parse_qdiscs,
    parse_statistics,
)
from tests.patience import PATIENCE

NAMES = {1: "lo", 2: "eth0"}


def test_statistics_are_by_device() -> None:
    links = [
        {
            "index": 1,
            "attrs": [
                ("IFLA_IFNAME", "lo"),
                ("IFLA_STATS64", {"rx_bytes": 2**40, "tx_packets": 3, "collisions": 0}),
                ("IFLA_STATS", {"rx_bytes": 0, "tx_packets": 3, "collisions": 0}),
            ],
        },
        {"index": 2, "attrs": [("IFLA_IFNAME", "old0"), ("IFLA_STATS", {"rx_bytes": 7})]},
        {"index": 3, "attrs": [("IFLA_IFNAME", "bare0")]},
        {"index": 4, "attrs": []},
    ]
    assert dict(parse_statistics(links)) == {
        "lo": {"receive_bytes": 2**40, "transmit_packets": 3, "collisions": 0},
        "old0": {"receive_bytes": 7},
    }


def test_tunnel_addresses_are_the_local_end() -> None:
    messages = [
        {"index": 2, "prefixlen": 24, "attrs": [("IFA_ADDRESS", "10.0.0.9"), ("IFA_LABEL", "x")]},
        {"index": 2, "prefixlen": 32, "attrs": [("IFA_ADDRESS", "10.9.9.9"), ("IFA_LOCAL", "10.9.9.1")]},
        {"index": 7, "prefixlen": 64, "attrs": [("IFA_ADDRESS", "fe80::1")]},
        {"index": 2, "prefixlen": 64, "attrs": []},
    ]  # fmt: skip
    assert list(parse_addresses(messages, NAMES.get)) == [
        InterfaceAddress("eth0", ip_address("10.0.0.9"), 24),
        InterfaceAddress("eth0", ip_address("10.9.9.1"), 32),
    ]


def test_only_root_qdiscs_are_read() -> None:
    statistics = {
        "attrs": [
            ("TCA_STATS_BASIC", {"bytes": 10, "packets": 2}),
            ("TCA_STATS_QUEUE", {"qlen": 1, "backlog": 66, "drops": 3, "requeues": 4, "overlimits": 5}),
        ]
    }  # fmt: skip
    messages = [
        {"index": 2, "parent": 0xFFFFFFFF, "attrs": [("TCA_KIND", "mq"), ("TCA_STATS2", statistics)]},
        {"index": 2, "parent": 0x10001, "attrs": [("TCA_KIND", "fq"), ("TCA_STATS2", statistics)]},
        {"index": 2, "parent": 0xFFFFFFF1, "attrs": [("TCA_KIND", "clsact")]},
        {"index": 1, "parent": 0xFFFFFFFF, "attrs": [("TCA_KIND", "noqueue")]},
        {"index": 9, "parent": 0xFFFFFFFF, "attrs": [("TCA_KIND", "gone")]},
    ]  # fmt: skip
    assert list(parse_qdiscs(messages, NAMES.get)) == [
        Qdisc("eth0", "mq", 10, 2, 3, 4, 5, 1, 66),
        Qdisc("lo", "noqueue", None, None, None, None, None, None, None),
    ]


def test_missing_library_error_names_the_package() -> None:
    with pytest.raises(SourceAbsentError, match=r"pip install 'kube-plimsoll\[agent\]'"):
        routenetlink.pyroute2("pyroute2_that_nobody_installed")


def test_library_is_imported_on_first_use() -> None:
    program = "import sys, agent.main; print('pyroute2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout.strip() == "False"


class Interrupted:
    """A kernel whose devices change this many times during a dump."""

    def __init__(self, times: int) -> None:
        self.times = times

    def get_qdiscs(self):
        if self.times:
            self.times -= 1
            raise routenetlink.pyroute2("pyroute2.netlink.exceptions").NetlinkDumpInterrupted
        return []


def test_interrupted_dump_is_repeated() -> None:
    kernel = Interrupted(2)
    assert routenetlink.qdiscs(lambda: nullcontext(kernel)) == []


def test_repeatedly_interrupted_dump_is_an_error() -> None:
    kernel = Interrupted(100)
    with pytest.raises(CollectorError, match="kept changing"):
        routenetlink.qdiscs(lambda: nullcontext(kernel))


def test_kernel_error_is_a_collector_error() -> None:
    class Refusing:
        def get_qdiscs(self):
            raise PermissionError(1, "Operation not permitted")

    with pytest.raises(CollectorError, match="not permitted"):
        routenetlink.qdiscs(lambda: nullcontext(Refusing()))


PROGRAM = """
import dataclasses, json
from collectors.shared import routenetlink
from collectors.ethtool.driverinfo import Ioctl
with Ioctl() as kernel:
    print(json.dumps({
        "statistics": routenetlink.statistics(),
        "addresses": [(a.device, str(a.ip), a.prefix) for a in routenetlink.addresses()],
        "qdiscs": [dataclasses.asdict(q) for q in routenetlink.qdiscs()],
        "driver": dataclasses.asdict(kernel.driver("v0")),
        "ports": sorted(kernel.link("v0").supported) if kernel.link("v0") else None,
        "autonegotiates": kernel.link("v0").autonegotiates,
        "counted": dict(kernel.statistics("v0")),
        "loopback": kernel.statistics("lo"),
        "gone": [kernel.driver("v9"), kernel.link("v9"), kernel.statistics("v9")],
    }))
"""
NETWORK = """
ip link set lo up
ip link add v0 type veth peer name v1
ip address add 10.99.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
tc qdisc add dev v0 root handle 1: pfifo limit 7
exec "$PYTHON" -W error -c "$PROGRAM"
"""


def test_real_network_of_two_devices_is_read() -> None:
    missing = [tool for tool in ("unshare", "ip", "tc") if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip("needs root, and unshare, ip and tc (Debian: util-linux, iproute2)")
    done = subprocess.run(
        ["unshare", "--net", "sh", "-ec", NETWORK],
        env={**os.environ, "PYTHON": sys.executable, "PROGRAM": PROGRAM, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    if done.returncode and ("not permitted" in done.stderr or "not supported" in done.stderr):
        pytest.skip(f"this machine allows no such network: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["statistics"].keys() == {"lo", "v0", "v1"}
    assert found["statistics"]["v0"]["receive_errors"] == 0
    assert ["v0", "10.99.0.1", 24] in found["addresses"]
    assert [(q["kind"], q["drops"]) for q in found["qdiscs"] if q["device"] == "v0"] == [
        ("pfifo", 0)
    ]
    assert found["driver"]["name"] == "veth"
    assert found["autonegotiates"] is False
    assert found["counted"]["peer_ifindex"] > 0
    assert found["loopback"] is None
    assert found["gone"] == [None, None, None]
