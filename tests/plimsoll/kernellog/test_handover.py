"""The socket of the kernel log: who may connect, where clients continue, and what floods and stalled clients cost."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from plimsoll.kernellog import readers
from plimsoll.kernellog.handover import KernelLogServer, SocketReader
from plimsoll.kernellog.readers import Batch, KernelLogError, Position
from plimsoll.kernellog.records import Record
from tests.patience import PATIENCE

BOOT = "b1"


@pytest.fixture
def kernel(tmp_path: Path):
    """A kernel log in a file."""

    class Log:
        path = tmp_path / "kmsg"
        next = 0

        def append(self, *texts: str) -> None:
            with self.path.open("a") as file:
                for text in texts:
                    file.write(f"6,{self.next},{self.next},-;{text}\n")
                    self.next += 1

    return Log()


@pytest.fixture
def serve(tmp_path: Path):
    servers = []

    def start(open_log, uids=()) -> Path:
        path = tmp_path / f"socket{len(servers)}"
        server = KernelLogServer(
            path, open_log, boot_id=BOOT, uids=uids, records_per_second=1_000_000
        )
        servers.append(server)
        threading.Thread(target=server.run, daemon=True).start()
        return path

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def connect():
    readers_ = []

    def open_reader(*arguments, **more) -> SocketReader:
        readers_.append(SocketReader(*arguments, **more))
        return readers_[-1]

    yield open_reader
    for reader in readers_:
        reader.close()


def drain(reader: SocketReader) -> None:
    while True:
        reader.read(PATIENCE)


def received(reader: SocketReader, count: int) -> list[str]:
    texts: list[str] = []
    while len(texts) < count:
        texts += [record.text for record in reader.read(PATIENCE).records]
    return texts


def test_clients_continue_after_their_position_within_one_boot(kernel, serve, connect) -> None:
    kernel.append("a", "b", "c")
    path = serve(lambda after: readers.open_reader(kernel.path, after))
    first = connect(path, None)
    assert first.boot_id == BOOT
    assert received(first, 3) == ["a", "b", "c"]
    kernel.append("d \udcff".encode(errors="replace").decode())
    assert received(first, 1) == ["d ?"]
    first.close()
    again = connect(path, Position(BOOT, 1, 1))
    assert received(again, 2) == ["c", "d ?"]
    other_boot = connect(path, Position("b0", 1, 1))
    assert received(other_boot, 4)[0] == "a"


def test_socket_of_a_killed_reader_is_replaced_and_other_files_are_not(kernel, tmp_path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "stale"))
    options = {"boot_id": BOOT, "uids": (), "records_per_second": 1}
    server = KernelLogServer(tmp_path / "stale", lambda _: None, **options)
    assert (tmp_path / "stale").stat().st_mode & 0o777 == 0o660
    server.close()
    (tmp_path / "data").write_text("precious")
    with pytest.raises(OSError, match="in use"):
        KernelLogServer(tmp_path / "data", lambda _: None, **options)
    assert (tmp_path / "data").read_text() == "precious"


CLIENT = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1])
try:
    s.sendall(b"all\\n"); print(len(s.recv(100)))
except (BrokenPipeError, ConnectionResetError):
    print(0)
"""


PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")
"""An interpreter that other users may run too."""


@pytest.mark.skipif(os.geteuid() != 0 or not PYTHON, reason="needs root and a Python of the system")
@pytest.mark.parametrize(("uids", "admitted"), [((), False), ((64999,), True)])
def test_only_permitted_users_receive_the_log(kernel, serve, uids, admitted) -> None:
    kernel.append("secret")
    path = serve(lambda after: readers.open_reader(kernel.path, after), uids)
    path.chmod(0o666)
    with tempfile.TemporaryDirectory() as public:
        Path(public).chmod(0o755)
        path.rename(Path(public) / "socket")
        command = [PYTHON, "-c", CLIENT, f"{public}/socket"]
        done = subprocess.run(command, user=64999, group=64999, capture_output=True, text=True, check=True, cwd="/")  # fmt: skip
    assert (int(done.stdout) > 0) == admitted


def test_server_of_another_user_is_not_trusted(kernel, serve, connect, monkeypatch) -> None:
    path = serve(lambda after: readers.open_reader(kernel.path, after))
    monkeypatch.setattr("os.geteuid", lambda: 64999)
    uid = os.getuid()
    with pytest.raises(KernelLogError, match=f"served by the user {uid}"):
        connect(path, None, uids=(uid + 1,))


@pytest.mark.parametrize("request_", [b"x" * 500, b"after b1 x 1\n", b"after\n", b"\xff\n", b""])
def test_invalid_requests_end_the_connection(kernel, serve, request_) -> None:
    path = serve(lambda after: readers.open_reader(kernel.path, after))
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE)
        peer.connect(str(path))
        peer.sendall(request_)
        peer.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert peer.recv(100) == b""


def test_many_peers_are_refused_and_leave_room_when_they_go(kernel, serve, connect) -> None:
    kernel.append("a")
    path = serve(lambda after: readers.open_reader(kernel.path, after))
    peers = [connect(path, None) for _ in range(4)]
    for _ in range(200):
        with pytest.raises(KernelLogError):
            connect(path, None)
    for peer in peers:
        peer.close()
    while True:  # until the server has seen it
        try:
            assert received(connect(path, None), 1) == ["a"]
            return
        except KernelLogError:
            continue


class Ring:
    """A kernel's ring buffer with endless records: each read returns the newest ones and counts the others as lost."""

    def __init__(self) -> None:
        self.read_ = 0

    def read(self, _timeout: float) -> Batch:
        first = self.read_ * 1000
        self.read_ += 1
        return Batch([Record(first + n, 1, 6, "x" * 100) for n in range(10)], 990)

    def close(self) -> None:
        pass


def test_stalled_client_holds_no_memory_and_learns_what_was_lost(serve, connect) -> None:
    ring = Ring()
    path = serve(lambda _: ring)
    client = connect(path, None)
    client.read(PATIENCE)
    before = -1
    while ring.read_ != before:  # the server stops when the socket is full
        before = ring.read_
        threading.Event().wait(0.2)
    assert before < 5000
    batches = [client.read(PATIENCE) for _ in range(10)]
    assert sum(batch.lost for batch in batches) > 0
    assert sum(len(batch.records) for batch in batches) > 0


def test_endless_line_of_a_server_ends_the_connection(tmp_path, connect) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()

    def flood() -> None:
        connection, _ = listener.accept()
        connection.sendall(b"boot b\n")
        try:
            while True:
                connection.sendall(b"x" * 10_000)
        except OSError:
            connection.close()

    threading.Thread(target=flood, daemon=True).start()
    client = connect(tmp_path / "s", None)
    with pytest.raises(KernelLogError, match="a line of more"):
        drain(client)
    listener.close()
