import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from collectors.interface.refusal import REASONS
from collectors.interface.sample import Family, Sample
from collectors.textfile import Options, TextFile
from collectors.textfile.formats import promtext
from plimsoll.flags import options

PARSERS = {
    "promtext": lambda text: promtext.parse(text.encode("utf-8", "surrogateescape")),
}


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
    page = (Path(__file__).parents[3] / "docs/agent.md").read_text()
    assert [reason for reason in REASONS if f"| `{reason}` |" not in page] == []


def test_largest_size_is_configurable(tmp_path: Path, values) -> None:
    (tmp_path / "x.prom").write_text("# " + "x" * 100 + "\nx 1\n")
    chosen = Options(textfile_directories=(str(tmp_path),), textfile_max_size=50)
    assert "x" not in values(TextFile(chosen).collect())
    chosen = Options(textfile_directories=(str(tmp_path),), textfile_max_size=500)
    assert values(TextFile(chosen).collect())["x"] == 1


def test_outdated_file_can_be_an_error(tmp_path: Path, clock, values) -> None:
    now = clock.now
    for name, written in (("old", now - 120), ("new", now - 30), ("next", now + 999)):
        (tmp_path / f"{name}.prom").write_text(f"{name} 1\n")
        os.utime(tmp_path / f"{name}.prom", (written, written))
    chosen = Options(textfile_directories=(str(tmp_path),), textfile_max_age=60.0)
    collector = TextFile(chosen, clock=clock)
    found = values(collector.collect())
    assert {"new", "next"} <= found.keys()
    assert "old" not in found
    old = f'file="{tmp_path / "old.prom"}"'
    assert found[f'node_textfile_file_error{{{old},reason="age"}}'] == 1
    assert found[f"node_textfile_mtime_seconds{{{old}}}"] == now - 120, "dashboards need the age"
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
