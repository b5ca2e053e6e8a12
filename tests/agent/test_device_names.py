"""A device has the same name in all collectors, in whatever letters."""

import os
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.registry import COLLECTORS, build


@pytest.mark.parametrize("name", ["l\u00e4nk0", "eth\u4e00", "l\udce4nk0"])
def test_network_device_is_in_netdev_and_netclass(name: str, tmp_path: Path) -> None:
    for device in (name, "eth0"):
        directory = os.fsencode(tmp_path) + b"/sys/class/net/" + os.fsencode(device)
        os.makedirs(directory)  # noqa: PTH103 (may not be UTF-8)
        for file, text in (("mtu", "1500\n"), ("operstate", "up\n"), ("flags", "0x1003\n")):
            with open(directory + b"/" + file.encode(), "w") as out:  # noqa: PTH123
                out.write(text)
    numbers = " ".join(["1"] * 16)
    (tmp_path / "proc/net").mkdir(parents=True)
    text = f"a\nb\n{name}: {numbers}\n  eth0: {numbers}\n"
    (tmp_path / "proc/net/dev").write_bytes(os.fsencode(text))
    host = Host(procfs=tmp_path / "proc", sysfs=tmp_path / "sys")
    chosen = {found: COLLECTORS[found].options() for found in ("netdev", "netclass")}
    for collector in build(host, chosen).values():
        devices = {
            dict(sample.labels)["device"]
            for family in collector.collect()
            for sample in family.samples
        }
        assert devices == {os.fsencode(name).decode("utf-8", "replace"), "eth0"}
