"""Saved heads survive a restart in a file that is either valid or dropped, and never harms the agent."""

import os
import resource
import signal
import struct
import subprocess
import sys
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agent.rules import state_file
from agent.rules.promql.labels import NAME, make
from agent.rules.promql.plan import Need
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.state_file import StateFileError
from agent.rules.storage.head import Head
from agent.rules.storage.snapshot import SeriesSnapshot, Snapshot, encode
from tests.examples import examples

BOOT = "0b5a8e1e-0d3c-4c42-9d5c-6f2f0c1f9f11"
OTHER_BOOT = "ffffffff-0d3c-4c42-9d5c-6f2f0c1f9f11"
MIB = 1 << 20


def series(*, source: str = "", **labels: str) -> SeriesSnapshot:
    return SeriesSnapshot(
        make([(NAME, "m"), *labels.items()]),
        source,
        array("I", [0, 2]),
        array("d", [1.5, float("nan")]),
        array("I"),
    )


def snapshot(*found: SeriesSnapshot) -> Snapshot:
    return Snapshot(0, array("q", [1_000, 2_000, 3_000]), found or (series(),))


SAVED = {
    "one": snapshot(series(d="a"), series(source="rule 1", d="µ\udcff")),
    "two": Snapshot(0, array("q"), ()),
}


def save(path: Path) -> None:
    state_file.save(path, BOOT, SAVED, limit=MIB)


def load(
    path: Path, *, boot: str = BOOT, now: int = 4_000, limit: int = MIB
) -> dict[str, Snapshot]:
    return state_file.load(path, boot, now=now, limit=limit)


def dropped(path: Path, *, boot: str = BOOT, now: int = 4_000, limit: int = MIB) -> str:
    """The logged reason why nothing was loaded."""
    with capture_logs() as lines:
        assert load(path, boot=boot, now=now, limit=limit) == {}
    (line,) = lines
    return str(line.get("reason", line["event"]))


def left(path: Path) -> list[str]:
    """The names in the file's directory."""
    return sorted(found.name for found in path.parent.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rules.state"


def test_saved_state_is_loaded(path: Path) -> None:
    save(path)
    assert repr(load(path)) == repr(SAVED)


def test_file_is_readable_by_its_owner_only(path: Path) -> None:
    save(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_other_file_is_left_in_the_directory(path: Path) -> None:
    save(path)
    save(path)
    assert left(path) == [path.name]


def test_missing_file_causes_no_warning(path: Path) -> None:
    with capture_logs() as lines:
        assert load(path) == {}
    assert [line["log_level"] for line in lines] == ["info"]


def test_file_of_another_boot_is_dropped(path: Path) -> None:
    save(path)
    assert dropped(path, boot=OTHER_BOOT) == "saved before the machine's last boot"


def test_file_of_another_version_is_dropped(path: Path) -> None:
    save(path)
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 8, 2)
    path.write_bytes(content)
    assert dropped(path) == "format version 2, this agent has 1"


def test_samples_of_the_future_are_dropped(path: Path) -> None:
    save(path)
    assert dropped(path, now=3_000) == "has samples with future timestamps"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda content: b"", "truncated"),
        (lambda content: content[:40], "truncated"),
        (lambda content: content[:-1], "damaged: its checksum is wrong"),
        (lambda content: content + b"\0", "damaged: its checksum is wrong"),
        (lambda content: content[:60] + b"?" + content[61:], "damaged: its checksum is wrong"),
        (lambda content: b"x" * len(content), "not a state file of this agent"),
        (lambda content: resealed(content[:-8]), "damaged, or larger than 1MiB unpacked"),
        (lambda content: resealed(content[:48] + b"?????"), "damaged: cannot be unpacked"),
    ],
)
def test_damaged_file_is_dropped(path: Path, spoil: Callable[[bytes], bytes], reason: str) -> None:
    save(path)
    path.write_bytes(spoil(path.read_bytes()))
    assert dropped(path) == reason


def resealed(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def packed(content: bytes) -> bytes:
    return resealed(struct.pack("<8sI36s", b"PLIMRULE", 1, BOOT.encode()) + zlib.compress(content))


def test_any_truncated_content_is_dropped(path: Path) -> None:
    content = b"".join(encode(SAVED))
    for size in range(len(content)):
        path.write_bytes(packed(content[:size]))
        assert dropped(path) == "it ends too early"
    path.write_bytes(packed(content + b"\0"))
    assert dropped(path) == "it goes on behind its end"


def with_runs(starts: list[int], gaps: list[int] | None = None) -> Snapshot:
    values = array("d", [1.0] * len(starts))
    labels = make([(NAME, "m")])
    return snapshot(SeriesSnapshot(labels, "", array("I", starts), values, array("I", gaps or [])))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (Snapshot(0, array("q", [2, 1]), ()), "times that do not rise"),
        (Snapshot((1 << 32) - 1, array("q", [1]), ()), "more ticks than there can have been"),
        (snapshot(series(), series()), "a series that is there twice"),
        (with_runs([]), "not as many values as runs, or none"),
        (with_runs([1, 1]), "runs that do not rise, or begin after the last tick"),
        (with_runs([3]), "runs that do not rise, or begin after the last tick"),
        (with_runs([1], [0]), "gaps where no run begins"),
        (
            snapshot(
                SeriesSnapshot((("a", "b"),), "", array("I", [0]), array("d", [1]), array("I"))
            ),
            "labels without the metric's name or out of order",
        ),
        (
            snapshot(
                SeriesSnapshot(((NAME, ""),), "", array("I", [0]), array("d", [1]), array("I"))
            ),
            "a label without a value",
        ),
    ],
)
def test_impossible_content_is_dropped(path: Path, wrong: Snapshot, reason: str) -> None:
    state_file.save(path, BOOT, {"one": wrong}, limit=MIB)
    assert dropped(path) == reason


def test_oversized_file_is_not_read(path: Path) -> None:
    path.write_bytes(b"x" * 20_000)
    assert dropped(path, limit=10_000) == "larger than 10000"


def test_small_file_that_unpacks_to_much_is_dropped(path: Path) -> None:
    path.write_bytes(packed(bytes(64 * MIB)))
    assert dropped(path) == "damaged, or larger than 1MiB unpacked"


def test_huge_count_is_rejected(path: Path) -> None:
    path.write_bytes(packed(struct.pack("<II1sII", 1, 1, b"g", 0, 0xFFFFFFFF)))
    assert dropped(path) == "it ends too early"


def test_oversized_state_is_not_saved_and_the_old_file_stays(path: Path) -> None:
    save(path)
    before = path.read_bytes()
    with pytest.raises(StateFileError, match="more than 100 of samples"):
        state_file.save(path, BOOT, SAVED, limit=100)
    assert path.read_bytes() == before
    assert left(path) == [path.name]


def test_largest_saved_state_can_be_loaded(path: Path) -> None:
    noise = array("d", struct.unpack("<10000d", os.urandom(80_000)))
    runs = array("I", range(10_000))
    labels = make([(NAME, "m")])
    full = Snapshot(0, array("q", runs), (SeriesSnapshot(labels, "", runs, noise, array("I")),))
    limit = sum(map(len, encode({"": full})))
    state_file.save(path, BOOT, {"": full}, limit=limit)
    assert load(path, now=10_000, limit=limit)
    assert dropped(path, now=10_000, limit=limit - 1)


def test_symlink_is_not_followed(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    save(elsewhere)
    path.symlink_to(elsewhere)
    assert dropped(path) == "a symbolic link, which is not followed"
    before = elsewhere.read_bytes()
    state_file.save(path, BOOT, {}, limit=MIB)
    assert elsewhere.read_bytes() == before
    assert not path.is_symlink()


def test_pipe_in_place_of_the_file_does_not_hang_the_agent(path: Path) -> None:
    os.mkfifo(path)
    assert dropped(path) == "not a regular file"


def test_directory_in_place_of_the_file_is_reported(path: Path) -> None:
    path.mkdir()
    assert dropped(path) == "not a regular file"
    with pytest.raises(StateFileError, match="cannot be written"):
        save(path)
    assert left(path) == [path.name]


def test_missing_directory_is_reported(path: Path) -> None:
    with pytest.raises(StateFileError, match="No such file or directory"):
        save(path / "file")


def test_temporary_files_of_a_killed_agent_are_removed(path: Path) -> None:
    (path.parent / f".{path.name}.abc.tmp").write_bytes(b"half")
    (path.parent / "other.tmp").write_bytes(b"not ours")
    save(path)
    load(path)
    assert left(path) == ["other.tmp", path.name]


CHILD = """
import resource, sys
from array import array
from pathlib import Path
from agent.rules import state_file
from agent.rules.promql.labels import NAME, make
from agent.rules.storage.snapshot import SeriesSnapshot, Snapshot, encode

path, boot, most, turns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
runs = array("I", range(20_000))
turn = 0
while turn != turns:
    turn += 1
    values = array("d", [turn + number / 7 for number in runs])
    series = SeriesSnapshot(make([(NAME, "m")]), "", runs, values, array("I"))
    try:
        state_file.save(path, boot, {"g": Snapshot(0, array("q", runs), (series,))}, limit=1 << 30)
        print("saved", flush=True)
    except state_file.StateFileError as error:
        print(error, flush=True)
"""


def start(
    path: Path, *, most: int = resource.RLIM_INFINITY, turns: int = -1
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", CHILD, str(path), BOOT, str(most), str(turns)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_file_is_whole_whenever_the_agent_is_killed(path: Path, soak: bool) -> None:
    for turn in range(60 if soak else 5):
        with start(path) as child:
            assert child.stdout is not None
            for _ in range(1 + turn % 3):
                assert child.stdout.readline() == "saved\n"
            for _ in range(turn % 5):
                path.stat()
            child.send_signal(signal.SIGKILL)
        found = load(path, now=20_000, limit=1 << 30)["g"]
        (kept,) = found.series
        assert kept.values == array("d", [kept.values[0] + n / 7 for n in range(20_000)])
    assert left(path) == [path.name]


def test_full_disk_keeps_the_old_file(path: Path) -> None:
    save(path)
    with start(path, most=50_000, turns=1) as child:
        assert child.stdout is not None
        assert child.stdout.read() == f"{path}: cannot be written: File too large\n"
    assert load(path).keys() == SAVED.keys()
    assert left(path) == [path.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_directory_is_reported(path: Path) -> None:
    path.parent.chmod(0o500)
    with pytest.raises(StateFileError, match="Permission denied"):
        save(path)


ALL = Selector("")
BYTES = st.binary(max_size=300)
VALID = b"".join(encode(SAVED))
BITS = st.lists(
    st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=4
)


@given(content=BYTES)
@settings(max_examples=examples(25), deadline=None)
def test_no_bytes_harm_the_agent(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.state"
    for written in (content, resealed(content), packed(content)):
        path.write_bytes(written)
        assert set(load(path)) <= {""}


@given(changes=BITS)
@settings(max_examples=examples(50), deadline=None)
def test_loaded_state_is_usable(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(VALID)
    for place, byte in changes:
        content[place] = byte
    path = tmp_path_factory.getbasetemp() / "changed.state"
    path.write_bytes(packed(bytes(content)))
    for found in load(path).values():
        use(found)


def use(found: Snapshot) -> None:
    """Continue with the loaded state and query everything."""
    history = Head([Need(ALL, 10_000)])
    history.restore(found)
    for time in (4_000, 5_000):
        history.begin(time)
        history.add(make([(NAME, "m"), ("d", "a")]), 1.0)
        history.settle()
        history.record("rule 1", [])
        history.end()
        for kept in history.select(ALL):
            kept.at(time, 0)
            kept.window(0, time)
    history.snapshot().check()
    assert history.samples >= 2


@pytest.mark.parametrize("text", ["", "x", "../../etc/passwd", "é" * 36])
def test_kernel_without_a_boot_id_is_reported(tmp_path: Path, text: str) -> None:
    directory = tmp_path / "sys/kernel/random"
    directory.mkdir(parents=True)
    with pytest.raises(StateFileError, match="boot_id"):
        state_file.boot_id(tmp_path)
    (directory / "boot_id").write_text(text)
    with pytest.raises(StateFileError, match="not a boot id"):
        state_file.boot_id(tmp_path)
    (directory / "boot_id").write_text(f"{BOOT}\n")
    assert state_file.boot_id(tmp_path) == BOOT
