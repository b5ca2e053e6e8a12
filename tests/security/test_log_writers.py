"""Whoever writes a monitored log, or connects to the kernel log's socket, takes little of its reader and never ends it."""

import json
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from plimsoll.kernellog import readers
from plimsoll.kernellog.handover import KernelLogServer, SocketReader
from plimsoll.kernellog.readers import KernelLogError
from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e
AGENT = (sys.executable, "-P", "-m", "agent")
CONFIG = {
    "plugin": "filelog",
    "logPath": "/var/log/engine.log",
    "pluginConfig": {
        "timestamp": "^time=(\\S+)",
        "message": "msg=(.*)",
        "timestampFormat": "2006-01-02T15:04:05Z",
    },
    "lookback": "5m",
    "bufferSize": 100,
    "source": "engine",
    "rules": [
        {"type": "temporary", "reason": f"Broken{number}", "pattern": f"(a|ab|b)*c.*x{number}"}
        for number in range(10)
    ],
}


def test_agent_ends_cleanly_while_it_matches_hostile_lines(tmp_path: Path) -> None:
    (tmp_path / "var/log").mkdir(parents=True)
    (tmp_path / "monitor.json").write_text(json.dumps(CONFIG))
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    (tmp_path / "var/log/engine.log").write_text(f"time={stamp} msg={'ab' * 2000}\n" * 3000)
    program = subprocess.Popen(
        [
            *AGENT,
            "--web.listen-address=127.0.0.1:0",
            "--collector.disable-defaults",
            "--collector.problems",
            f"--problems.config={tmp_path}/monitor.json",
            f"--path.rootfs={tmp_path}",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stderr is not None
        for line in program.stderr:
            if found := re.search(r"msg=listening address=(\S+)", line):
                break
        end = time.monotonic() + PATIENCE
        while 'monitor_up{monitor="monitor.json"} 1' not in text(found[1]):  # it matches
            assert time.monotonic() < end
        program.send_signal(signal.SIGTERM)
        assert program.wait(PATIENCE) == 0
    finally:
        program.kill()
        program.communicate()


def text(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE) as reply:
        return str(reply.read().decode())


def test_kernel_log_is_served_again_when_files_can_be_opened_again(tmp_path: Path) -> None:
    log, path = tmp_path / "kmsg", tmp_path / "socket"
    log.write_text("6,1,1,-;hello\n")
    command = (*AGENT, "kernel-log", f"--socket={path}", f"--source={log}")
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert program.stderr is not None
        assert "listening" in program.stderr.readline()
        limits = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
        opened = len(list(Path(f"/proc/{program.pid}/fd").iterdir()))
        resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (opened, limits[1]))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            assert "cannot accept a client" in program.stderr.readline()
        resource.prlimit(program.pid, resource.RLIMIT_NOFILE, limits)
        reader = SocketReader(path, None)
        assert [record.text for record in reader.read(PATIENCE).records] == ["hello"]
        reader.close()
        program.send_signal(signal.SIGTERM)
        assert program.wait(PATIENCE) == 0
    finally:
        program.kill()
        program.communicate()


def test_client_that_does_not_read_makes_room_for_another(tmp_path: Path) -> None:
    log, path = tmp_path / "kmsg", tmp_path / "socket"
    log.write_text("".join(f"6,{number},1,-;{'x' * 900}\n" for number in range(2000)))
    now = [0.0]
    server = KernelLogServer(
        path,
        lambda _: readers.open_reader(log, None),
        boot_id="b1",
        uids=(),
        records_per_second=1_000_000,
        clock=lambda: now[0],
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    clients: list[socket.socket | SocketReader] = []
    try:
        for request in (b"all\n", b"all\n", b"all\n", b""):
            peer = socket.socket(socket.AF_UNIX)
            clients.append(peer)
            peer.connect(str(path))
            peer.sendall(request)
        end = time.monotonic() + PATIENCE
        while len(server._waiting) < len(clients):  # all four are waited for
            assert time.monotonic() < end
            time.sleep(0.01)
        with pytest.raises(KernelLogError):
            SocketReader(path, None)
        for _ in range(4):
            now[0] += 2
            reader = SocketReader(path, None)
            clients.append(reader)
            assert reader.read(PATIENCE).records
    finally:
        server.close()
        for client in clients:
            client.close()
    for serving in [one for one in threading.enumerate() if "(_serve)" in one.name]:
        serving.join(PATIENCE)  # it logs that its client has gone
    thread.join(PATIENCE)
    assert not thread.is_alive()
