"""The Unix socket over which a process with CAP_SYSLOG hands the kernel's log to one without.

The client sends `after <boot id> <sequence> <microseconds>` or `all`, and a line break. The server answers with `boot <boot id>`,
then each record as /dev/kmsg returns it, and `lost <number>` where records were overwritten.

The server reads from the kernel no faster than the client receives, so that a stalled client costs no memory: the kernel's ring
buffer is the only queue. Both sides check the other's uid (SO_PEERCRED).
"""

import contextlib
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from plimsoll import logs
from plimsoll.kernellog.readers import Batch, KernelLogError, PacedReader, Position, Reader
from plimsoll.kernellog.records import RecordError, encode, parse
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

_MOST_CLIENTS = 4
_REQUEST_SECONDS, _SEND_SECONDS = 5.0, 30.0
_LONGEST_REQUEST = 200
_LONGEST_LINE = 64 << 10
_CREDENTIALS = struct.Struct("3i")
_WAIT = 1.0
_AGAIN = 1.0
"""Seconds until the server tries again to accept, and for which it waits for the slot of a client that it ended."""
_PATIENCE = 1.0
"""Seconds after which a client that does not read, or sends no request, may be ended for another."""


def peer_uid(connection: socket.socket) -> int:
    """Return the uid of the process at the other end of a Unix socket."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(data)
    return int(uid)


class KernelLogServer:
    """Hands the kernel's log over to the clients of a Unix socket, each from the record that it names."""

    def __init__(
        self,
        path: Path,
        open_log: Callable[[Position | None], Reader],
        *,
        boot_id: str,
        uids: Collection[int],
        records_per_second: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`uids`: the users that may connect, beside this process's own. Raises OSError."""
        self._open_log = open_log
        self._boot_id = boot_id
        self._uids = {*uids, os.geteuid()}
        self._rate = records_per_second
        self._refusals = RateLimitedLogger(log)
        self._clock = clock
        self._closed = threading.Event()
        self._slots = threading.BoundedSemaphore(_MOST_CLIENTS)
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, float] = {}
        """Clients whose request or reading is waited for, and since when."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()  # of a process that was killed
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.bind(str(path))
            path.chmod(0o660)
            self._socket.listen(_MOST_CLIENTS)
        except OSError:
            self._socket.close()
            raise

    def run(self) -> None:
        """Serve clients, until `close`."""
        while not self._closed.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                # Such as EMFILE, which ends when other files are closed.
                if not self._closed.wait(_AGAIN):
                    self._refusals.log(
                        "cannot accept a client of the kernel log", reason=str(error)
                    )
                continue
            try:
                self._admit(connection)
            except (OSError, RuntimeError) as error:  # gone already; no more threads
                self._refusals.log("cannot serve a client of the kernel log", reason=str(error))
                connection.close()

    def close(self) -> None:
        """Accept no more clients."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _admit(self, connection: socket.socket) -> None:
        if (uid := peer_uid(connection)) not in self._uids:
            self._refusals.log(
                "refused a client of the kernel log: its user may not read it", uid=uid
            )
        elif not self._slots.acquire(blocking=False) and not self._make_room():
            self._refusals.log(
                "refused a client of the kernel log: too many are connected", uid=uid
            )
        else:
            try:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except RuntimeError:
                self._slots.release()
                raise
            return
        connection.close()

    def _make_room(self) -> bool:
        """End the client that has kept the server waiting longest, if it did for a while. Returns whether its slot is taken."""
        with self._lock:
            connection, since = min(
                self._waiting.items(), key=lambda item: item[1], default=(None, 0.0)
            )
            if connection is None or self._clock() - since < _PATIENCE:
                return False
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return self._slots.acquire(timeout=_AGAIN)

    @contextlib.contextmanager
    def _awaiting(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._waiting[connection] = self._clock()
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[connection]

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(_REQUEST_SECONDS)
                with self._awaiting(connection):
                    request = _request(connection)
                after = self._position(request)
                connection.settimeout(_SEND_SECONDS)
                self._hand_over(connection, after)
        except (OSError, ValueError, KernelLogError) as error:
            self._refusals.log("a client of the kernel log is gone", reason=str(error))
        finally:
            self._slots.release()

    def _position(self, request: bytes) -> Position | None:
        """Return the position that a request names, if it is of this boot. Raises ValueError."""
        match request.decode("ascii").split():
            case ["all"]:
                return None
            case ["after", boot, sequence, microseconds]:
                position = Position(boot, int(sequence), int(microseconds))
                return position if boot == self._boot_id else None
            case _:
                raise ValueError(f"not a request: {request[:40]!r}")

    def _hand_over(self, connection: socket.socket, after: Position | None) -> None:
        connection.sendall(f"boot {self._boot_id}\n".encode())
        with contextlib.closing(PacedReader(self._open_log(after), self._rate)) as reader:
            while True:
                batch = reader.read(_WAIT)
                lost = f"lost {batch.lost}\n".encode() if batch.lost else b""
                if data := lost + b"".join(map(encode, batch.records)):
                    with self._awaiting(connection):
                        connection.sendall(data)
                elif _is_closed(connection):
                    return


def _request(connection: socket.socket) -> bytes:
    """Return the client's only line. Raises ValueError if it is too long, or if the client sends none."""
    data = b""
    while not data.endswith(b"\n"):
        piece = connection.recv(_LONGEST_REQUEST)
        data += piece
        if not piece or len(data) > _LONGEST_REQUEST:
            raise ValueError(f"not a request: {data[:40]!r}")
    return data


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the client has closed the connection, or sends what it should not."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(_SEND_SECONDS)
    return True


class SocketReader:
    """Reads the kernel's log from the socket of a KernelLogServer."""

    def __init__(self, path: Path, after: Position | None, *, uids: Collection[int] = (0,)) -> None:
        """`uids`: the users whose server is trusted, beside this process's own. Raises KernelLogError."""
        self._path = path
        self._data = b""
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(_REQUEST_SECONDS)
            self._socket.connect(str(path))
            if (uid := peer_uid(self._socket)) not in {*uids, os.geteuid()}:
                raise KernelLogError(f"{path}: served by the user {uid}, not by root")
            text = " ".join(map(str, after)) if after else ""
            self._socket.sendall(f"after {text}\n".encode() if text else b"all\n")
            self.boot_id = self._first_line()
        except OSError as error:
            self._socket.close()
            raise KernelLogError(f"{path}: {error.strerror or error}") from error
        except KernelLogError:
            self._socket.close()
            raise

    def _first_line(self) -> str:
        while b"\n" not in self._data and len(self._data) < _LONGEST_REQUEST:
            self._receive()
        line, _, self._data = self._data.partition(b"\n")
        if not line.startswith(b"boot "):
            raise KernelLogError(f"{self._path}: not the socket of a kernel log: {line[:40]!r}")
        return line[5:].decode("ascii", "replace")

    def read(self, timeout: float) -> Batch:
        """Return what is new; wait for it at most `timeout` seconds. Raises KernelLogError."""
        self._socket.settimeout(0 if b"\n" in self._data else timeout)
        with contextlib.suppress(TimeoutError, BlockingIOError):
            self._receive()
        whole, _, self._data = self._data.rpartition(b"\n")
        records, lost = [], 0
        for line in whole.split(b"\n") if whole else ():
            if line.startswith(b"lost ") and line[5:].isdigit():
                lost += int(line[5:24])
                continue
            try:
                records.append(parse(line))
            except RecordError:
                lost += 1
        if len(self._data) > _LONGEST_LINE:
            raise KernelLogError(f"{self._path}: a line of more than {_LONGEST_LINE} bytes")
        return Batch(records, lost)

    def _receive(self) -> None:
        try:
            piece = self._socket.recv(_LONGEST_LINE)
        except (TimeoutError, BlockingIOError):
            raise
        except OSError as error:
            raise KernelLogError(f"{self._path}: {error.strerror}") from error
        if not piece:
            raise KernelLogError(f"{self._path}: the reader has closed the socket")
        self._data += piece

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
