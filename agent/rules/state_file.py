"""The state file (`--rules.state-file`), which keeps the rules' samples over a restart of the agent. It is replaced atomically and fully checked when read.

    magic 8 bytes, format version u32, boot id 36 bytes, snapshots (zlib), CRC-32 of all before u32; little-endian

Times are relative to boot, so they are meaningless after a reboot.
"""

import errno
import os
import re
import stat
import struct
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path
from threading import Lock

from agent.rules.storage.snapshot import Snapshot, SnapshotError, decode, encode
from collectors.interface import host
from collectors.interface.sample import CollectorError
from plimsoll import logs
from plimsoll.sizes import format_size
from plimsoll.text import SentenceError

VERSION = 1
"""Version of the format; files with another one are dropped."""

_MAGIC = b"PLIMRULE"
_HEAD = struct.Struct("<8sI36s")
_CHECKSUM = struct.Struct("<I")
_BOOT_ID = re.compile(r"[0-9a-f-]{36}", re.ASCII)
# Repeated values compress well at any level, random ones at none.
_LEVEL = 1
_SUFFIX = ".tmp"

log = logs.get(__name__)


class StateFileError(SentenceError):
    """The file cannot be written, or its content cannot be used."""


class _OtherBootError(StateFileError):
    """The file is from another boot; not an error."""


def boot_id(procfs: Path) -> str:
    """Return the kernel's boot id. Raises StateFileError if it cannot be read."""
    path = procfs / "sys/kernel/random/boot_id"
    try:
        text = host.read_once(path).strip()
    except CollectorError as error:
        raise StateFileError(str(error)) from error
    if not _BOOT_ID.fullmatch(text):
        raise StateFileError(f"{path}: not a boot id: {text}")
    return text


def save(path: Path, boot: str, snapshots: Mapping[str, Snapshot], *, limit: int) -> None:
    """Replace the file with the snapshots of groups, by name. Raises StateFileError and leaves the file unchanged on failure.

    `boot`: see `boot_id`. `limit`: maximum bytes of the snapshots.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(_SUFFIX, _prefix(path), path.parent)
        try:
            _write(descriptor, boot, snapshots, limit)
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
        _sync(path.parent)
    except OSError as error:
        raise StateFileError(f"{path}: cannot be written: {error.strerror}") from error


def _write(descriptor: int, boot: str, snapshots: Mapping[str, Snapshot], limit: int) -> None:
    with os.fdopen(descriptor, "wb") as file:
        head = _HEAD.pack(_MAGIC, VERSION, boot.encode())
        file.write(head)
        checksum = zlib.crc32(head)
        compressor = zlib.compressobj(_LEVEL)
        size = 0
        for piece in encode(snapshots):
            size += len(piece)
            if size > limit:
                raise StateFileError(f"more than {format_size(limit)} of samples; none were saved")
            checksum = _append(file, compressor.compress(piece), checksum)
        checksum = _append(file, compressor.flush(), checksum)
        file.write(_CHECKSUM.pack(checksum))
        file.flush()
        os.fsync(file.fileno())


def _append(file: BufferedWriter, packed: bytes, checksum: int) -> int:
    file.write(packed)
    return zlib.crc32(packed, checksum)


def _sync(directory: Path) -> None:
    """Make the rename durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load(path: Path, boot: str, *, now: int, limit: int) -> dict[str, Snapshot]:
    """Return the saved snapshots by group. If the file cannot be used, log why and return none.

    `boot`, `limit`: as for `save`. `now`: ms of the samples' clock; no sample can be later. Also removes temporary files of an
    agent that was killed while saving.
    """
    _sweep(path)
    try:
        return _decode(_read(path, limit), boot, now, limit)
    except FileNotFoundError:
        log.info("no saved samples for rules; long ranges start now", file=str(path))
    except _OtherBootError as error:
        log.info("saved samples for rules are dropped", file=str(path), reason=str(error))
    except OSError as error:
        symlink = error.errno == errno.ELOOP
        reason = "a symbolic link, which is not followed" if symlink else error.strerror
        log.warning("saved samples for rules cannot be read", file=str(path), reason=reason)
    except (StateFileError, SnapshotError) as error:
        log.warning("saved samples for rules are dropped", file=str(path), reason=str(error))
    return {}


def _read(path: Path, limit: int) -> bytes:
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StateFileError("not a regular file")
        most = limit + limit // 100 + 1_000  # zlib's overhead on incompressible data is less
        if status.st_size > most:
            raise StateFileError(f"larger than {format_size(limit)}")
        return os.pread(descriptor, most, 0)
    finally:
        os.close(descriptor)


def _decode(content: bytes, boot: str, now: int, limit: int) -> dict[str, Snapshot]:
    if len(content) < _HEAD.size + _CHECKSUM.size:
        raise StateFileError("truncated")
    magic, version, saved_boot = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise StateFileError("not a state file of this agent")
    if version != VERSION:
        raise StateFileError(f"format version {version}, this agent has {VERSION}")
    (checksum,) = _CHECKSUM.unpack_from(content, len(content) - _CHECKSUM.size)
    body = memoryview(content)[: -_CHECKSUM.size]
    if zlib.crc32(body) != checksum:
        raise StateFileError("damaged: its checksum is wrong")
    if saved_boot != boot.encode():
        raise _OtherBootError("saved before the machine's last boot")
    snapshots = decode(_unpack(body[_HEAD.size :], limit))
    if any(snapshot.times and snapshot.times[-1] >= now for snapshot in snapshots.values()):
        raise StateFileError("has samples with future timestamps")
    return snapshots


def _unpack(packed: memoryview, limit: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, limit + 1)
    except zlib.error as error:
        raise StateFileError("damaged: cannot be unpacked") from error
    if len(content) > limit or not unpacker.eof or unpacker.unused_data:
        raise StateFileError(f"damaged, or larger than {format_size(limit)} unpacked")
    return content


def _prefix(path: Path) -> str:
    return f".{path.name}."


def _sweep(path: Path) -> None:
    with suppress(OSError):
        for entry in path.parent.iterdir():
            if entry.name.startswith(_prefix(path)) and entry.suffix == _SUFFIX:
                entry.unlink()


class StateSaver:
    """One state file: read at start, written every minute and at the end. Blocking; any thread may call its methods."""

    def __init__(self, path: Path, procfs: Path, *, limit: int) -> None:
        """`procfs`: for the boot id. `limit`: maximum bytes of samples in the file."""
        self._path = path
        self._procfs = procfs
        self._limit = limit
        self._error = ""
        self._lock = Lock()

    def load(self, now: int) -> Mapping[str, Snapshot]:
        """Return the saved samples by group; on failure log why and return none. `now` as for the function `load`."""
        try:
            boot = boot_id(self._procfs)
        except StateFileError as error:
            log.warning("saved samples for rules are dropped", reason=str(error))
            return {}
        return load(self._path, boot, now=now, limit=self._limit)

    def save(self, snapshots: Mapping[str, Snapshot]) -> None:
        """Replace the saved samples. Errors are logged once."""
        with self._lock:
            try:
                boot = boot_id(self._procfs)
                save(self._path, boot, snapshots, limit=self._limit)
            except StateFileError as error:
                if str(error) != self._error:
                    log.error("samples for rules are not saved", reason=str(error))
                self._error = str(error)
                return
            if self._error:
                log.info("samples for rules are saved again", file=str(self._path))
            self._error = ""
