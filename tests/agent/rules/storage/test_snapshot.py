"""The bytes of saved heads are pinned: any later release, on any machine, can read them."""

from array import array

import pytest

from agent.rules.promql.labels import NAME
from agent.rules.storage import snapshot
from agent.rules.storage.snapshot import SeriesSnapshot, Snapshot, SnapshotError, decode, encode

SAVED = Snapshot(
    7,
    array("q", [1_000, 2_000]),
    (
        SeriesSnapshot(
            ((NAME, "m"), ("d", "a")),
            "r 1",
            array("I", [3, 8]),
            array("d", [1.5, 0]),
            array("I", [8]),
        ),
    ),
)
WRITTEN = bytes.fromhex(
    "01000000"  # groups
    "01000000 67"  # name
    "07000000"  # first tick
    "02000000 e803000000000000 d007000000000000"  # times
    "01000000"  # series
    "02000000 08000000 5f5f6e616d655f5f 01000000 6d 01000000 64 01000000 61"  # labels
    "03000000 722031"  # source
    "02000000 03000000 08000000 000000000000f83f 0000000000000000"  # runs
    "01000000 08000000"  # gaps
)


def test_format_is_unchanged() -> None:
    assert b"".join(encode({"g": SAVED})) == WRITTEN
    assert decode(WRITTEN) == {"g": SAVED}


def test_text_that_is_not_utf_8_is_rejected() -> None:
    with pytest.raises(SnapshotError, match="not UTF-8"):
        decode(WRITTEN.replace(b"r 1", b"r \xff"))


def test_duplicate_group_is_rejected() -> None:
    with pytest.raises(SnapshotError, match="twice"):
        decode(b"\2\0\0\0" + 2 * WRITTEN[4:])


def test_big_endian_machine_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    (series,) = SAVED.series
    times, starts, values, gaps = SAVED.times[:], series.starts[:], series.values[:], series.gaps[:]
    for numbers in (times, starts, values, gaps):
        numbers.byteswap()  # as in the memory of such a machine
    there = SeriesSnapshot(series.labels, series.source, starts, values, gaps)
    monkeypatch.setattr(snapshot, "_SWAPPED", True)
    assert b"".join(encode({"g": Snapshot(7, times, (there,))})) == WRITTEN
