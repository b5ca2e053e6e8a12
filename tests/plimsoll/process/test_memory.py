"""Memory that is returned to the kernel after a start."""

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from plimsoll.process import memory

SMAPS = """\
00400000-00500000 r-xp 00000000 fe:00 11 /usr/lib/libx.so.1
Rss:                 100 kB
Anonymous:             0 kB
00500000-00600000 r--p 00000000 fe:00 11 /usr/lib/libx.so.1
Anonymous:             4 kB
00600000-00700000 r--p 00000000 fe:00 11 /usr/lib/libx.so.1 (deleted)
Anonymous:             0 kB
00700000-00800000 rw-p 00000000 fe:00 11 /usr/lib/libx.so.1
Anonymous:             0 kB
00800000-00900000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
00900000-00a00000 r--p 00000000 00:00 0
Anonymous:             0 kB
00a00000-00b00000 r--s 00000000 fe:00 11 /usr/share/x
Anonymous:             0 kB
"""


def test_only_unmodified_code_and_constants_of_files_are_dropped() -> None:
    """A relocated page would be read from its file without the relocation."""
    assert list(memory.unmodified(SMAPS)) == [(0x400000, 0x500000), (0x600000, 0x700000)]


def _file_kib() -> int:
    """Return the resident memory of this process that files back."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssFile:")[2].split()[0])


def _drop(pipe) -> None:
    before = _file_kib()
    memory.settle()
    memory.drop_code()
    after = _file_kib()
    os.getloadavg()  # code that was dropped still runs
    pipe.send((before, after, sorted("cab")))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the kernel has no smaps")
def test_program_continues_with_less_memory() -> None:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=_drop, args=(theirs,))
    child.start()
    before, after, result = ours.recv()
    child.join()
    assert result == ["a", "b", "c"]
    assert after < before / 2


ARENAS = """
import re, sys, threading
from pathlib import Path
from plimsoll.process import memory

if sys.argv[1] == "one":
    memory.use_one_arena()
held, ready, over = [], threading.Barrier(9), threading.Event()

def hold():
    held.append(bytearray(100_000))
    ready.wait()
    over.wait()

threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads:
    thread.start()
ready.wait()
# An arena is aligned to its maximum size, of which the rest is reserved; another mapping may be aligned by chance.
arena = r"^([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0 *\\n\\2-[0-9a-f]+ ---p"
found = re.findall(arena, Path("/proc/self/maps").read_text(), re.M)
print(sum(int(start, 16) % (64 << 20) == 0 for start, _ in found))
over.set()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_threads_share_one_heap() -> None:
    found = {
        way: int(subprocess.check_output([sys.executable, "-P", "-c", ARENAS, way]))
        for way in ("one", "many")
    }
    assert found["one"] == 0
    assert found["many"] > 0


async def trims_at(sizes):
    """The looks after which the heap was trimmed, for the sizes at each look."""
    looks, trims = [], []

    def measure():
        if len(looks) == len(sizes):
            raise asyncio.CancelledError
        looks.append(sizes[len(looks)])
        return looks[-1]

    with contextlib.suppress(asyncio.CancelledError):
        await memory.return_unused(measure, lambda: trims.append(len(looks)), 0.0)
    return trims


async def test_heap_is_trimmed_when_growth_lasts_for_two_looks():
    assert await trims_at([100, 200, 200, 105, 105, 105]) == [3]


async def test_heap_is_not_trimmed_for_a_short_growth():
    assert await trims_at([100, 200, 100, 200, 100]) == []


async def test_heap_is_trimmed_again_once_what_was_in_use_is_freed():
    """The first trim finds memory in use; what is freed afterwards would stay in the heap."""
    assert await trims_at([100, 200, 200, 190, 150, 150, 105]) == [3, 6]


async def test_memory_that_stays_in_use_is_trimmed_a_bounded_number_of_times():
    trims = await trims_at([100, *[200] * 500])
    assert [later - sooner for sooner, later in itertools.pairwise(trims)] == [3, 5, 9, 17, 33]


async def test_large_requests_that_come_and_go_are_trimmed_a_bounded_number_of_times():
    assert len(await trims_at([100, *[200, 200, 200, 100, 100] * 20])) <= 8
