"""Real kernel output with parts removed, duplicated, swapped or overwritten gives CollectorError or unique series."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import (
    buddyinfo,
    cgroups,
    diskstats,
    entropy,
    filefd,
    filesystem,
    interrupts,
    ksmd,
    meminfo_numa,
    processes,
    schedstat,
    slabinfo,
    softirqs,
    stat,
    zoneinfo,
)
from collectors import os as os_release
from collectors.diskstats import diskinfo, udev
from collectors.interface.sample import CollectorError, Family
from collectors.shared import mounts
from collectors.shared.formats.patterns import DeviceFilter

XEON = Path(__file__).parent / "fixtures/xeon"
EVERY = DeviceFilter("", "")
MOUNTS = """\
29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
98 29 0:49 / /mnt/with\\040blank ro shared:7 master:1 - nfs4 nas:/vol rw,vers=4.2
"""
NODE = "Node 0 MemTotal:       263950116 kB\nNode 0 Active(anon):  881200 kB\nNode 0 HugePages_Total:   512\n"
PROCESS = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 33 1 2 3\n"

Parser = Callable[[str], Iterable[object]]
CASES: dict[str, tuple[str, Parser]] = {
    "buddyinfo": ("proc/buddyinfo", buddyinfo.parse),
    "cgroups": ("proc/cgroups", cgroups.parse),
    "diskstats": (
        "proc/diskstats",
        lambda t: diskstats.families(diskstats.parse(t, EVERY.ignores)),
    ),
    "entropy": ("proc/sys/kernel/random/poolsize", lambda t: [entropy.parse("poolsize", t)]),
    "filefd": ("proc/sys/fs/file-nr", filefd.parse),
    "interrupts": ("proc/interrupts", lambda t: interrupts.parse(t, EVERY, zeros=True)),
    "ksmd": ("sys/kernel/mm/ksm/general_profit", lambda t: [ksmd.parse("general_profit", t)]),
    "os": ("etc/os-release", lambda t: os_release.families(os_release.parse(t))),
    "schedstat": ("proc/schedstat", schedstat.parse),
    "slabinfo": ("proc/slabinfo", lambda t: slabinfo.parse(t, EVERY)),
    "softirqs": ("proc/softirqs", softirqs.parse),
    "stat": ("proc/stat", lambda t: stat.parse(t, softirqs=True)),
    "udev": (
        "run/udev/data/b8:0",
        lambda t: diskinfo.families([diskinfo.Disk("sda", "8", "0", udev.parse(t), False)]),
    ),
    "zoneinfo": ("proc/zoneinfo", zoneinfo.parse),
}
TEXTS: dict[str, tuple[str, Parser]] = {
    **{name: ((XEON / path).read_text(), parse) for name, (path, parse) in CASES.items()},
    "mounts": (MOUNTS, lambda t: filesystem.families((m, "") for m in mounts.parse(t))),
    "numa": (NODE, lambda t: meminfo_numa.families([("0", meminfo_numa.parse_meminfo(t))])),
    "processes": (PROCESS, processes.parse_stat),
}
INSERTS = st.sampled_from(
    ["", " ", "\n", "\t", ":", "=", "-", "-1", "x", "0x10", "1_0", "9" * 30, "\0", "é", "\u2028", '"', "'", "\\", ",", "(", ")", "\ufffd", "²"]
)  # fmt: skip
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 30), INSERTS, st.booleans()), min_size=1, max_size=4
)


def damaged(text: str, edits: list[tuple[float, int, str, bool]]) -> str:
    """Each edit removes or duplicates a part of the text and inserts something in its place."""
    for place, length, insert, double in edits:
        begin = int(place * len(text))
        piece = text[begin : begin + length]
        text = text[:begin] + (piece * 2 if double else "") + insert + text[begin + length :]
    return text


@pytest.mark.parametrize("name", TEXTS)
def test_undamaged_text_is_parsed(name: str) -> None:
    text, parse = TEXTS[name]
    assert list(parse(text))


@pytest.mark.parametrize("name", TEXTS)
@given(edits=EDITS)
def test_damage_is_an_error_or_harmless(
    name: str, edits: list[tuple[float, int, str, bool]]
) -> None:
    text, parse = TEXTS[name]
    with contextlib.suppress(CollectorError):
        families = [found for found in parse(damaged(text, edits)) if isinstance(found, Family)]
        series = Counter((s.name, s.labels) for family in families for s in family.samples)
        assert [s for s, times in series.items() if times > 1] == []
        assert len({family.name for family in families}) == len(families)


@pytest.mark.parametrize("name", TEXTS)
def test_file_may_end_anywhere(name: str) -> None:
    text, parse = TEXTS[name]
    for end in range(min(len(text), 600)):
        with contextlib.suppress(CollectorError):
            list(parse(text[:end]))
