import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from collectors.interface.refusal import REASONS
from collectors.interface.sample import CollectorError, Family, Sample, Watchable
from collectors.shared import steadyfile
from collectors.textfile import Options, TextFile
from collectors.textfile.formats import promtext
from plimsoll.flags import options

PARSERS = {
    "promtext": lambda text: promtext.parse(text.encode("utf-8", "surrogateescape")),
}


NOW = 2_000_000_000.0


class Clock:
    """The collector's wall clock, set relative to a file's last change."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now

    def after(self, path: Path, seconds: float) -> None:
        self.now = path.stat().st_ctime_ns / 1e9 + seconds


@pytest.fixture
def clock() -> Clock:
    """Far in the future: every file is old."""
    return Clock()


@pytest.fixture
def collector(tmp_path: Path, clock: Clock) -> TextFile:
    return TextFile(Options(textfile_directories=(str(tmp_path),)), clock=clock)


@pytest.fixture
def read(collector: TextFile, values) -> Callable[[], dict[str, float]]:
    """The exported samples without modification times."""

    def collect() -> dict[str, float]:
        found = values(collector.collect())
        return {
            series: value
            for series, value in found.items()
            if not series.startswith(("node_textfile_mtime", "node_textfile_file_error"))
        }

    return collect


def test_samples_and_modification_times_of_files_are_exported(
    tmp_path: Path, collector, values
) -> None:
    path = tmp_path / "text.prom"
    path.write_text("node_health_metric 1\n")
    os.utime(path, (1, 1790000000.9))
    (tmp_path / "notes.txt").write_text("not ours")
    assert values(collector.collect()) == {
        "node_health_metric": 1,
        f'node_textfile_mtime_seconds{{file="{path}"}}': 1790000000,
        "node_textfile_scrape_error": 0,
    }


def test_missing_directory_flag_exports_nothing_without_an_error(values) -> None:
    assert values(TextFile(Options()).collect()) == {"node_textfile_scrape_error": 0}


@pytest.mark.parametrize(
    "bad", [b"x 1", b"x 1 1441205977284\n", b"x one\n", b"x 1\nx{\n", b"\0\0\0\0\0\0"]
)
def test_invalid_file_is_omitted_whole_and_affects_no_other(
    tmp_path: Path, collector, values, bad
) -> None:
    (tmp_path / "bad.prom").write_bytes(b"fine 1\n" + bad)
    (tmp_path / "good.prom").write_text("good 1\n")
    found = values(collector.collect())
    assert found.pop("node_textfile_scrape_error") == 1
    assert len([series for series in found if "file_error" in series and "bad.prom" in series]) == 1
    assert {series for series in found if "file_error" not in series} == {
        "good",
        f'node_textfile_mtime_seconds{{file="{tmp_path / "good.prom"}"}}',
    }


def test_repaired_file_is_read_again(tmp_path: Path, read) -> None:
    (tmp_path / "x.prom").write_text("x 1")
    assert read() == {"node_textfile_scrape_error": 1}
    (tmp_path / "x.prom").write_text("x 1\n")
    assert read() == {"x": 1, "node_textfile_scrape_error": 0}


def test_removed_file_is_forgotten(tmp_path: Path, read) -> None:
    (tmp_path / "x.prom").write_text("x 1\n")
    assert "x" in read()
    (tmp_path / "x.prom").unlink()
    assert read() == {"node_textfile_scrape_error": 0}


def test_directories_may_be_patterns(tmp_path: Path, values) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.prom").write_text(f'x{{d="{name}"}} 1\n')
    collector = TextFile(Options(textfile_directories=(f"{tmp_path}/*", f"{tmp_path}/a")))
    found = values(collector.collect())
    assert {series for series in found if series.startswith("x")} == {
        'x{d="a"}',
        'x{d="b"}',
        'x{d=".hidden"}',
    }
    assert found["node_textfile_scrape_error"] == 0, "a directory named twice is read once"


def test_missing_directory_is_an_error(tmp_path: Path, values) -> None:
    collector = TextFile(Options(textfile_directories=(f"{tmp_path}/none/*",)))
    assert values(collector.collect()) == {
        f'node_textfile_file_error{{file="{tmp_path}/none/*",reason="directory"}}': 1,
        "node_textfile_scrape_error": 1,
    }


@pytest.fixture
def errors(collector: TextFile, values) -> Callable[[], set[tuple[str, str]]]:
    """(file name, reason) of all rejected files."""

    def collect() -> set[tuple[str, str]]:
        pattern = re.compile(r'node_textfile_file_error\{file="(?:.*/)?(.*)",reason="(.*)"\}')
        found = values(collector.collect())
        rows = {match.groups() for series in found if (match := pattern.fullmatch(series))}
        assert found["node_textfile_scrape_error"] == float(bool(rows))
        return rows

    return collect


def test_every_reason_is_documented(tmp_path: Path, errors) -> None:
    os.mkfifo(tmp_path / "fifo.prom")
    (tmp_path / "socket.prom").mkdir()
    (tmp_path / "link.prom").symlink_to("nowhere")
    (tmp_path / "loop.prom").symlink_to("loop.prom")
    (tmp_path / "null.prom").symlink_to("/dev/null")
    (tmp_path / "zero.prom").symlink_to("/dev/zero")
    with (tmp_path / "huge.prom").open("wb") as file:
        file.truncate(1 << 30)
    for name, text in {
        "a": b'# HELP one A.\n# TYPE one gauge\none 1\n# HELP two A.\ntwo{f="a"} 1\nthree 1\n',
        "b": b'# TYPE one counter\none{f="b"} 1\n# HELP two B.\ntwo{f="b"} 1\nthree 2\nfour 4\n',
        "broken": b"five 5",
        "latin": b'five{x="\xe9"} 5\n',
        "own": b"node_textfile_scrape_error 0\n",
    }.items():
        (tmp_path / f"{name}.prom").write_bytes(text)
    assert errors() == {
        ("fifo.prom", "kind"),
        ("socket.prom", "kind"),
        ("null.prom", "kind"),
        ("zero.prom", "kind"),
        ("link.prom", "missing"),
        ("loop.prom", "missing"),
        ("huge.prom", "size"),
        ("b.prom", "type"),
        ("b.prom", "help"),
        ("b.prom", "series"),
        ("broken.prom", "truncated"),
        ("latin.prom", "encoding"),
        ("own.prom", "builtin"),
    }


def test_every_documented_reason_exists() -> None:
    page = (Path(__file__).parents[2] / "docs/agent.md").read_text()
    assert [reason for reason in REASONS if f"| `{reason}` |" not in page] == []


def test_largest_size_is_configurable(tmp_path: Path, values) -> None:
    (tmp_path / "x.prom").write_text("# " + "x" * 100 + "\nx 1\n")
    chosen = Options(textfile_directories=(str(tmp_path),), textfile_max_size=50)
    assert "x" not in values(TextFile(chosen).collect())
    chosen = Options(textfile_directories=(str(tmp_path),), textfile_max_size=500)
    assert values(TextFile(chosen).collect())["x"] == 1


def test_outdated_file_can_be_an_error(tmp_path: Path, clock: Clock, values) -> None:
    for name, written in (("old", NOW - 120), ("new", NOW - 30), ("next", NOW + 999)):
        (tmp_path / f"{name}.prom").write_text(f"{name} 1\n")
        os.utime(tmp_path / f"{name}.prom", (written, written))
    chosen = Options(textfile_directories=(str(tmp_path),), textfile_max_age=60.0)
    collector = TextFile(chosen, clock=clock)
    found = values(collector.collect())
    assert {"new", "next"} <= found.keys()
    assert "old" not in found
    old = f'file="{tmp_path / "old.prom"}"'
    assert found[f'node_textfile_file_error{{{old},reason="age"}}'] == 1
    assert found[f"node_textfile_mtime_seconds{{{old}}}"] == NOW - 120, "dashboards need the age"
    clock.now += 60
    found = values(collector.collect())
    assert "new" not in found
    assert "next" in found


def test_unchanged_files_are_not_merged_again(tmp_path: Path, collector) -> None:
    for number in range(2000):
        (tmp_path / f"{number}.prom").write_text(f'x{{n="{number}"}} {number}\n')
    first = collector.collect()
    assert len(first[0].samples) == 2000
    assert collector.collect() is first
    (tmp_path / "0.prom").write_text("y 1\n")
    assert len(collector.collect()[0].samples) in {1, 1999}


def test_built_in_metrics_override_files_and_the_file_is_named(tmp_path: Path, collector) -> None:
    (tmp_path / "x.prom").write_text("# TYPE node_load1 gauge\nnode_load1 9\nx 1\n")
    (tmp_path / "y.prom").write_text("y 1")
    load = Family("node_load1", "gauge", "1m load average.", (Sample("node_load1", (), 0.5),))
    own = collector.collect()
    assert collector.without_duplicates(own, {"other": load}) is own
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            found = {f.name: f for f in collector.without_duplicates(own, {"node_load1": load})}
    assert found.keys() == {
        "x",
        "node_textfile_mtime_seconds",
        "node_textfile_file_error",
        "node_textfile_scrape_error",
    }
    assert found["node_textfile_scrape_error"].samples[0].value == 1
    rows = {tuple(v for _, v in s.labels) for s in found["node_textfile_file_error"].samples}
    assert rows == {
        (str(tmp_path / "x.prom"), "builtin"),
        (str(tmp_path / "y.prom"), "truncated"),
    }
    assert [line["file"] for line in lines] == [str(tmp_path / "x.prom")]


def test_path_is_shown_as_by_node_exporter(tmp_path: Path, values) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "x.prom").write_text("x 1\n")
    for spelled in (f"{tmp_path}/", f"{tmp_path}//", f"{tmp_path}/.", f"{tmp_path}/a/.."):
        found = values(TextFile(Options(textfile_directories=(spelled,))).collect())
        assert f'node_textfile_mtime_seconds{{file="{tmp_path}/x.prom"}}' in found


def test_patterns_may_be_spelled_as_in_go(tmp_path: Path, values) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.prom").write_text(f"{name} 1\n")
    collector = TextFile(Options(textfile_directories=(f"{tmp_path}/[^a]",)))
    assert {"b"} == values(collector.collect()).keys() & {"a", "b"}


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("1000", 1000), ("512KiB", 512 << 10), ("16MiB", 16 << 20)]
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    (parse,) = (o.parse for _, o in options(Options) if o.flag == "collector.textfile.max-size")
    assert parse(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.5GiB", "1 MiB", "1MB", "1M", "1iB", "9" * 20])
def test_invalid_sizes_are_rejected(text: str) -> None:
    (parse,) = (o.parse for _, o in options(Options) if o.flag == "collector.textfile.max-size")
    with pytest.raises(ValueError, match="not a size"):
        parse(text)


def test_conflicting_files_are_an_error_and_the_first_wins(
    tmp_path: Path, collector, values
) -> None:
    (tmp_path / "a.prom").write_text("x 1\n")
    (tmp_path / "b.prom").write_text("x 2\n")
    found = values(collector.collect())
    assert found["x"] == 1
    assert found["node_textfile_scrape_error"] == 1
    assert len([series for series in found if "mtime" in series]) == 2


def test_file_cannot_override_metrics_of_the_collector(tmp_path: Path, read) -> None:
    (tmp_path / "a.prom").write_text("node_textfile_scrape_error 0\n")
    assert read() == {"node_textfile_scrape_error": 1}


def test_fifo_directory_and_dangling_link_do_not_hang(tmp_path: Path, read) -> None:
    os.mkfifo(tmp_path / "fifo.prom")
    (tmp_path / "directory.prom").mkdir()
    (tmp_path / "link.prom").symlink_to(tmp_path / "nowhere")
    (tmp_path / "x.prom").write_text("x 1\n")
    assert read() == {"x": 1, "node_textfile_scrape_error": 1}


def test_links_are_followed_as_in_a_mounted_configmap(tmp_path: Path, read) -> None:
    for version, text in (("v1", "x 1\n"), ("v2", "x 2\n")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "x.prom").write_text(text)
    (tmp_path / "data").symlink_to("v1")
    (tmp_path / "x.prom").symlink_to("data/x.prom")
    assert read()["x"] == 1
    (tmp_path / "new").symlink_to("v2")
    (tmp_path / "new").rename(tmp_path / "data")
    assert read()["x"] == 2


def test_undecodable_file_name_can_be_a_label(tmp_path: Path, collector, values) -> None:
    (tmp_path / os.fsdecode(b"\xff.prom")).write_text("x 1\n")
    assert any("\ufffd.prom" in series for series in values(collector.collect()))


def test_unchanged_file_is_not_read_again(tmp_path: Path, collector, read) -> None:
    path = tmp_path / "x.prom"
    path.write_text("x 1\n")
    assert read()["x"] == 1
    known = collector._files._files[str(path)]
    assert read()["x"] == 1
    assert collector._files._files[str(path)] is known


def test_change_that_keeps_size_and_mtime_is_seen(tmp_path: Path, read) -> None:
    path = tmp_path / "x.prom"
    path.write_text("x 1\n")
    before = path.stat()
    assert read()["x"] == 1
    path.write_text("x 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read()["x"] == 2


class TestRecentFiles:
    """A file's time does not distinguish two writes within one kernel tick, and an in-place write has an
    empty moment.
    """

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "x.prom"
        path.write_text("x 1\n")
        return path

    def test_whole_new_file_counts_at_once(self, path: Path, clock: Clock, read) -> None:
        clock.after(path, 0.001)
        assert read()["x"] == 1

    def test_recent_file_is_read_again_although_its_stat_is_unchanged(
        self, path: Path, clock: Clock, collector, read
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
        self, path: Path, clock: Clock, read, content: str
    ) -> None:
        assert read()["x"] == 1
        path.write_text(content)
        clock.after(path, 0.001)
        assert read() == {"x": 1, "node_textfile_scrape_error": 0}
        clock.after(path, 0.2)
        assert "x" not in read()

    def test_previous_content_is_kept_for_a_bounded_time(
        self, path: Path, tmp_path: Path, clock: Clock, values
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
        self, path: Path, clock: Clock, collector
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
    tmp_path: Path, clock: Clock, read, age: float
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


def test_oversized_file_is_rejected_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.prom"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(CollectorError, match="larger than 16777216 bytes"):
        steadyfile.read(str(path), limit=16 << 20)


SECRET = "hunter2"


def rejected(collector: TextFile) -> dict[str, str]:
    """The reason of each rejected file, by name."""
    rows = [f for f in collector.collect() if f.name == "node_textfile_file_error"]
    return {Path(s.labels[0][1]).name: s.labels[1][1] for f in rows for s in f.samples}


def test_link_out_of_the_directory_is_not_followed(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "secret").write_text("secret 1\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / "file.prom").symlink_to(tmp_path / "secret")
    (home / "folder").symlink_to(tmp_path)
    (home / "through.prom").symlink_to("folder/secret")
    (tmp_path / "home2").mkdir()
    (tmp_path / "home2" / "near.prom").write_text("near 1\n")
    (home / "near.prom").symlink_to(tmp_path / "home2" / "near.prom")
    (tmp_path / "alias").symlink_to("home")
    for directory in ("home", "alias"):
        collector = TextFile(
            Options(textfile_directories=(str(tmp_path / directory),)), clock=clock
        )
        assert rejected(collector) == dict.fromkeys(
            ("file.prom", "through.prom", "near.prom"), "link"
        )


@pytest.mark.parametrize(
    "text",
    [
        f"{SECRET}\n",
        f"x {SECRET}\n",
        f'x{{a="{SECRET}"}} 1 {SECRET}\n',
        f"x 1 1234 {SECRET}\n",
        f"# TYPE x {SECRET}\n",
        f"# TYPE {SECRET}- gauge\n",
        f"# HELP {SECRET} a\n# HELP {SECRET} b\n",
        f"# TYPE {SECRET} gauge\n# TYPE {SECRET} gauge\n",
        f'x{{__{SECRET}=""}} 1\n',
        f'x{{{SECRET}="",{SECRET}=""}} 1\n',
        f"# HELP x {SECRET}\\\n",
        f"{SECRET} 1\n{SECRET} 1\n",
        f"# TYPE {SECRET} histogram\n{SECRET}_sum 1\n",
        f"# TYPE {SECRET} summary\n{SECRET} 1\n",
        f'# TYPE x histogram\nx_bucket{{le="{SECRET}"}} 1\nx_count 1\n',
        f"{SECRET}",
    ],
)
def test_reason_quotes_nothing_of_a_file(tmp_path: Path, collector, text: str) -> None:
    (tmp_path / "x.prom").write_text(text)
    with structlog.testing.capture_logs() as lines:
        collector.collect()
    (line,) = (line for line in lines if line["event"] == "text file not exported")
    assert SECRET not in str(line)


def limited(tmp_path: Path, clock: Clock, **limits: int) -> TextFile:
    return TextFile(Options(textfile_directories=(str(tmp_path),), **limits), clock=clock)


def test_samples_of_all_files_together_are_bounded(tmp_path: Path, clock: Clock) -> None:
    collector = limited(tmp_path, clock, textfile_max_samples=5)
    for name in "abcd":
        (tmp_path / f"{name}.prom").write_text(f"{name}1 1\n{name}2 2\n")
    assert rejected(collector) == {"c.prom": "samples", "d.prom": "samples"}
    known = collector._files._files[str(tmp_path / "d.prom")]
    (tmp_path / "a.prom").unlink()
    assert rejected(collector) == {"d.prom": "samples"}
    (tmp_path / "b.prom").unlink()
    assert rejected(collector) == {}
    assert known.families == ()


def test_bytes_of_all_files_together_are_bounded(tmp_path: Path, clock: Clock) -> None:
    collector = limited(tmp_path, clock, textfile_max_total_size=10)
    for name in "abc":
        (tmp_path / f"{name}.prom").write_text(f"{name} 1\n")
    assert rejected(collector) == {"c.prom": "size"}
    (tmp_path / "a.prom").write_text("aaaaa 1\n")
    assert rejected(collector) == {"b.prom": "size", "c.prom": "size"}
    (tmp_path / "a.prom").unlink()
    assert rejected(collector) == {}


def test_label_count_times_sample_count_is_bounded(tmp_path: Path, clock: Clock) -> None:
    collector = limited(tmp_path, clock, textfile_max_samples=100)
    (tmp_path / "x.prom").write_text("".join(f'x{{l{n}=""}} 1\n' for n in range(100)))
    assert rejected(collector) == {"x.prom": "samples"}
