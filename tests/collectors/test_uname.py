import os
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.uname import Uname

NODE = os.uname_result(
    ("Linux", "node-a", "6.8.0-51-generic", "#52-Ubuntu SMP PREEMPT_DYNAMIC", "aarch64")
)


@pytest.mark.parametrize("domain", ["(none)", "example.org"])
def test_all_fields_are_labels(tmp_path: Path, values, domain: str) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/domainname").write_text(f"{domain}\n")
    assert values(Uname(Host(procfs=tmp_path), uname=lambda: NODE).collect()) == {
        'node_uname_info{sysname="Linux",release="6.8.0-51-generic",version="#52-Ubuntu SMP PREEMPT_DYNAMIC",'
        f'machine="aarch64",nodename="node-a",domainname="{domain}"}}': 1
    }


def test_undecodable_host_name_is_printable(tmp_path: Path, values) -> None:
    odd = os.uname_result(("Linux", os.fsdecode(b"n\xff"), "6.1", "#1", "x86_64"))
    (series,) = values(Uname(Host(procfs=tmp_path), uname=lambda: odd).collect())
    assert 'nodename="n\ufffd"' in series
    assert series.encode()


def test_running_kernel_is_described(tmp_path: Path, values) -> None:
    (series,) = values(Uname(Host(procfs=tmp_path)).collect())
    assert f'release="{os.uname().release}"' in series
