"""Uses files of the real kernel, whose content is generated on read."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.interface.kernelfiles import KernelFiles, read_once
from tests.clock import Clock

NAME = Path("/proc/thread-self/comm")


@pytest.fixture
def files() -> KernelFiles:
    return KernelFiles(10)


@pytest.fixture
def comm() -> Iterator[Path]:
    """This thread's name, a kernel file that can be written."""
    path = NAME.resolve()
    before = path.read_text()
    yield path
    path.write_text(before)


def is_kept(files: KernelFiles, path: Path) -> bool:
    return str(path) in files._held


def test_kernel_file_stays_open_and_is_read_afresh(files: KernelFiles, comm: Path) -> None:
    for name in ("one", "a longer one", "two"):
        comm.write_text(name)
        assert files.read(str(comm)) == f"{name}\n".encode()
        assert files.attribute(str(comm)) == f"{name}\n".encode()
        assert is_kept(files, comm)


def test_replaced_disk_file_is_reopened(files: KernelFiles, tmp_path: Path) -> None:
    path = tmp_path / "x"
    for text in ("one", "", "a" * 4096, "b" * 200_000, "two"):
        path.write_text(text)
        assert files.read(str(path)) == text.encode()
        assert not is_kept(files, path)
        path.unlink()
        with pytest.raises(FileNotFoundError):
            files.read(str(path))


def test_long_file_is_read_whole(files: KernelFiles) -> None:
    """Until a read returns nothing: the kernel ends each read at its buffer size."""
    path = "/proc/kallsyms"
    if not os.access(path, os.R_OK):
        pytest.skip("no /proc/kallsyms here")
    for _ in range(2):
        content = files.read(path)
        assert len(content) > 1 << 16
        assert content.endswith(b"\n")
    assert len(files.attribute(path)) <= 4096


def test_removed_file_is_missing_although_cached(files: KernelFiles) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        path = Path(f"/proc/{child.pid}/comm")
        assert files.read(str(path)) != b""
        assert is_kept(files, path)
        child.communicate(b"\n")
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        files.read(str(path))
    assert not is_kept(files, path)


def test_kernel_errors_are_raised_unchanged(files: KernelFiles, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            files.read(str(tmp_path / "nothing"))
        with pytest.raises(IsADirectoryError):
            files.read(str(tmp_path))


def test_cache_is_bounded_and_evicts_the_least_recently_used(comm: Path) -> None:
    clock = Clock(0.0)
    files = KernelFiles(2, clock=clock)
    one, two, three = (Path(f"/proc/self/{name}") for name in ("comm", "statm", "cmdline"))
    for path in (one, two, three):
        files.read(str(path))
    assert [is_kept(files, path) for path in (one, two, three)] == [True, True, False]
    clock.now = 500.0
    files.read(str(two))
    clock.now = 1000.0
    files.read(str(three))
    assert [is_kept(files, path) for path in (one, two, three)] == [False, True, True]


def test_evicted_file_is_closed_after_its_last_reader(comm: Path) -> None:
    files = KernelFiles(1)
    files.read(str(comm))
    descriptor = files._held[str(comm)].descriptor
    assert os.fstat(descriptor)
    files._held.clear()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_threads_may_read_the_same_files_at_once(files: KernelFiles) -> None:
    paths = [f"/proc/self/{name}" for name in ("comm", "limits", "status", "statm")]
    expected = {path: read_once(path).split()[0] for path in paths}
    wrong: list[str] = []

    def read() -> None:
        for _ in range(200):
            wrong.extend(p for p in paths[:3] if files.read(p).split()[0] != expected[p])
            files._held.clear()

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_file_read_once_is_not_cached(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x" * 100_000)
    assert read_once(str(tmp_path / "x")) == b"x" * 100_000
    before = open_files()
    read_once("/proc/self/comm")
    assert open_files() == before


@pytest.mark.timeout(60)
def test_fifo_is_an_error_and_blocks_no_reader(files: KernelFiles, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    for read in (files.read, files.attribute, read_once):
        with pytest.raises(OSError, match="Illegal seek"):
            read(str(tmp_path / "x"))


@pytest.mark.timeout(60)
def test_endless_file_is_an_error(files: KernelFiles) -> None:
    for read in (files.read, read_once):
        with pytest.raises(OSError, match="File too large"):
            read("/dev/zero")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
