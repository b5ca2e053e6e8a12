import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from collectors.interface.host import Host
from collectors.interface.sample import CollectorError
from collectors.shared import netroot
from tests.patience import PATIENCE

PARSERS = {
    "netroot": lambda text: [netroot.nested_pids(text)],
}


FIRST = "pid:[4026531836]"
NESTED = "pid:[4026532247]"


@pytest.fixture
def procfs(tmp_path: Path):
    """Create a procfs as seen by this process: its pids, its PID namespace, and two networks."""

    def make(numbers: str, namespace: str, *, shared_network: bool = False) -> Host:
        (tmp_path / "self/ns").mkdir(parents=True)
        (tmp_path / "self/status").write_text(f"Name:\tagent\nNSpid:\t{numbers}\nNSsid:\t1\n")
        (tmp_path / "self/ns/pid").symlink_to(namespace)
        for directory in ("1/net", "net"):
            (tmp_path / directory).mkdir(parents=True)
        (tmp_path / "1/net/dev").write_text("the node's")
        if shared_network:
            os.link(tmp_path / "1/net/dev", tmp_path / "net/dev")
        else:
            (tmp_path / "net/dev").write_text("our own")
        return Host(procfs=tmp_path)

    return make


def test_host_pid_namespace_uses_the_network_of_process_1(procfs) -> None:
    machine = procfs("4711", FIRST)
    assert netroot.directory(machine) == machine.procfs / "1/net"


def test_process_1_of_a_container_is_its_own(procfs) -> None:
    machine = procfs("7", NESTED)
    assert netroot.directory(machine) == machine.procfs / "net"


def test_mounted_host_procfs_has_the_hosts_process_1(procfs) -> None:
    machine = procfs("90112\t7", NESTED)
    assert netroot.directory(machine) == machine.procfs / "1/net"


def test_unknown_namespace_falls_back_to_net(tmp_path: Path) -> None:
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/status").write_text("Name:\tagent\nPid:\t5\n")
    (tmp_path / "self/ns/pid").symlink_to(FIRST)
    assert netroot.directory(Host(procfs=tmp_path)) == tmp_path / "net"


def test_directory_that_is_no_procfs_is_read_directly(tmp_path: Path) -> None:
    assert netroot.directory(Host(procfs=tmp_path)) == tmp_path / "net"


def test_hidden_process_1_is_logged_and_the_own_network_read(procfs) -> None:
    machine = procfs("4711", FIRST)
    (machine.procfs / "1/net/dev").unlink()
    with structlog.testing.capture_logs() as lines:
        assert netroot.directory(machine) == machine.procfs / "net"
        assert netroot.directory(machine) == machine.procfs / "net"
    assert [(line["log_level"], line["path"]) for line in lines] == [
        ("warning", str(machine.procfs / "1/net"))
    ]


def test_netlink_in_another_network_is_rejected(procfs) -> None:
    machine = procfs("4711", FIRST)
    assert not netroot.is_own(machine)
    with pytest.raises(CollectorError, match="hostNetwork"):
        netroot.require_own(machine)


def test_netlink_in_the_same_network_is_accepted(procfs) -> None:
    machine = procfs("4711", FIRST, shared_network=True)
    assert netroot.is_own(machine)
    netroot.require_own(machine)


def test_netlink_is_accepted_if_the_own_network_is_read(procfs) -> None:
    assert netroot.is_own(procfs("7", NESTED))


@pytest.mark.parametrize(
    ("status", "count"),
    [
        ("NSpid:\t1\n", 1),
        ("Name:\tx\nNSpid:\t77\t5\t1\n", 3),
        ("NSpid:\n", 0),
        ("", 0),
        ("Pid: 1\n", 0),
    ],
)
def test_ids_of_a_process_are_counted(status: str, count: int) -> None:
    assert netroot.nested_pids(status) == count


PROGRAM = """
import sys
from pathlib import Path
from collectors.shared import netroot
from collectors.interface.host import Host
machine = Host(procfs=Path(sys.argv[1]))
print(netroot.directory(machine).relative_to(machine.procfs), netroot.is_own(machine))
"""


def _unshared(script: str, tmp_path: Path, *flags: str) -> str:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root, and unshare of util-linux, to make namespaces")
    (tmp_path / "host").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        ["unshare", *flags, "sh", "-ec", script],
        env={
            **os.environ,
            "PYTHON": sys.executable,
            "HERE": str(tmp_path),
            "PYTHONPATH": str(Path.cwd()),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    if done.returncode and "not permitted" in done.stderr:
        pytest.skip(f"this machine allows no namespaces: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_container_with_its_own_procfs_is_detected(tmp_path: Path) -> None:
    script = '"$PYTHON" "$HERE/program.py" /proc'
    flags = ("--pid", "--fork", "--mount-proc", "--net")
    assert _unshared(script, tmp_path, *flags) == "net True"


def test_container_with_the_hosts_procfs_is_detected(tmp_path: Path) -> None:
    script = (
        'mount --rbind /proc "$HERE/host"; mount -t proc proc /proc; '
        '"$PYTHON" "$HERE/program.py" "$HERE/host"'
    )
    flags = ("--pid", "--fork", "--mount", "--net")
    assert _unshared(script, tmp_path, *flags) == "1/net False"
