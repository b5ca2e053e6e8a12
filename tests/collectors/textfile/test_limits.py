"""Limits of text files: sizes, samples and links; and reasons that quote nothing of a file."""

from pathlib import Path

import pytest
import structlog

from collectors.interface.sample import CollectorError
from collectors.shared import steadyfile
from collectors.textfile import Options, TextFile


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


def test_link_out_of_the_directory_is_not_followed(tmp_path: Path, clock) -> None:
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


def limited(tmp_path: Path, clock, **limits: int) -> TextFile:
    return TextFile(Options(textfile_directories=(str(tmp_path),), **limits), clock=clock)


def test_samples_of_all_files_together_are_bounded(tmp_path: Path, clock) -> None:
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


def test_bytes_of_all_files_together_are_bounded(tmp_path: Path, clock) -> None:
    collector = limited(tmp_path, clock, textfile_max_total_size=10)
    for name in "abc":
        (tmp_path / f"{name}.prom").write_text(f"{name} 1\n")
    assert rejected(collector) == {"c.prom": "size"}
    (tmp_path / "a.prom").write_text("aaaaa 1\n")
    assert rejected(collector) == {"b.prom": "size", "c.prom": "size"}
    (tmp_path / "a.prom").unlink()
    assert rejected(collector) == {}


def test_label_count_times_sample_count_is_bounded(tmp_path: Path, clock) -> None:
    collector = limited(tmp_path, clock, textfile_max_samples=100)
    (tmp_path / "x.prom").write_text("".join(f'x{{l{n}=""}} 1\n' for n in range(100)))
    assert rejected(collector) == {"x.prom": "samples"}
