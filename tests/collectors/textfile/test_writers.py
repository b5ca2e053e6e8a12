"""Text files while they are written: no value is read that a writer has not completed."""

import threading
from pathlib import Path

import pytest

from collectors.interface.sample import Watchable
from collectors.textfile import Options, TextFile


class TestRecentFiles:
    """A file's time does not distinguish two writes within one kernel tick, and an in-place write has an
    empty moment.
    """

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "x.prom"
        path.write_text("x 1\n")
        return path

    def test_whole_new_file_counts_at_once(self, path: Path, clock, read) -> None:
        clock.after(path, 0.001)
        assert read()["x"] == 1

    def test_recent_file_is_read_again_although_its_stat_is_unchanged(
        self, path: Path, clock, collector, read
    ) -> None:
        clock.after(path, 0.001)
        assert read()["x"] == 1
        known = collector._files._files[str(path)]
        assert not known.settled
        clock.after(path, 1.0)
        read()
        assert collector._files._files[str(path)].settled

    @pytest.mark.parametrize("content", ["", "x 1", "x one\n"])
    def test_previous_content_is_kept_while_the_new_one_may_be_incomplete(
        self, path: Path, clock, read, content: str
    ) -> None:
        assert read()["x"] == 1
        path.write_text(content)
        clock.after(path, 0.001)
        assert read() == {"x": 1, "node_textfile_scrape_error": 0}
        clock.after(path, 0.2)
        assert "x" not in read()

    def test_previous_content_is_kept_for_a_bounded_time(
        self, path: Path, tmp_path: Path, clock, values
    ) -> None:
        chosen = Options(textfile_directories=(str(tmp_path),))
        collector = TextFile(chosen, clock=clock, patience=0.02)
        assert values(collector.collect())["x"] == 1
        path.write_text("")
        clock.after(path, 0.0)
        assert values(collector.collect())["x"] == 1
        clock.after(path, 0.03)  # still young
        assert "x" not in values(collector.collect())

    def test_fingerprint_changes_to_request_a_second_read(
        self, path: Path, clock, collector
    ) -> None:
        clock.after(path, 0.001)
        young = collector.fingerprint()
        clock.after(path, 0.2)
        old = collector.fingerprint()
        assert young != old
        clock.after(path, 10.0)
        assert collector.fingerprint() == old


def test_fingerprint_changes_with_content_and_files(tmp_path: Path, collector) -> None:
    assert isinstance(collector, Watchable)
    seen = [collector.fingerprint()]
    path = tmp_path / "x.prom"
    path.write_text("x 1\n")
    seen.append(collector.fingerprint())
    path.write_text("x 12\n")
    seen.append(collector.fingerprint())
    (tmp_path / "y.prom").symlink_to("nowhere")
    seen.append(collector.fingerprint())
    (tmp_path / "ignored.txt").write_text("")
    assert len(set(seen)) == 4
    assert collector.fingerprint() == seen[-1]


@pytest.mark.parametrize("age", [0.001, 5.0])
def test_no_step_of_an_in_place_write_makes_a_wrong_value(
    tmp_path: Path, clock, read, age: float
) -> None:
    path = tmp_path / "x.prom"
    path.write_text("x 77\n")
    clock.after(path, age)
    found = [read().get("x")]
    with path.open("wb", buffering=0) as file:
        for piece in (b"", b"x", b" 1", b"2", b"34", b"\n", b"y 5\n"):
            file.write(piece)
            clock.after(path, age)
            found.append(read().get("x"))
    assert set(found) <= {77, 1234, None}
    assert found[0] == 77
    assert found[-1] == 1234


def test_in_place_writers_never_make_a_wrong_value(tmp_path: Path, values) -> None:
    """A writer at full speed, in place and in two parts, whose prefixes are valid values too."""
    path = tmp_path / "x.prom"
    path.write_text("x 123456\n")
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for rest in (b"34\n", b"3456\n"):
                with path.open("wb", buffering=0) as file:
                    file.write(b"x 12")
                    file.write(rest)

    collector = TextFile(Options(textfile_directories=(str(tmp_path),)))
    assert values(collector.collect())["x"] == 123456
    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [values(collector.collect()).get("x") for _ in range(300)]
    finally:
        stop.set()
        writer.join()
    assert set(found) <= {1234.0, 123456.0, None}


def test_file_replaced_by_rename_is_never_absent(tmp_path: Path, values) -> None:
    path, draft = tmp_path / "x.prom", tmp_path / "x.tmp"
    path.write_text("x 1\n")
    stop = threading.Event()

    def replace() -> None:
        while not stop.is_set():
            draft.write_text("x 22\n")
            draft.rename(path)

    collector = TextFile(Options(textfile_directories=(str(tmp_path),)))
    writer = threading.Thread(target=replace)
    writer.start()
    try:
        found = [values(collector.collect())["x"] for _ in range(300)]
    finally:
        stop.set()
        writer.join()
    assert set(found) <= {1.0, 22.0}
