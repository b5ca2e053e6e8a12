"""A dump that is read in parts, from a temporary file, gives the samples of one that is read at once."""

import os
from pathlib import Path

import numpy as np
import pytest

from lab.backtest.inputs.dump import read_sources
from lab.backtest.inputs.source import BacktestError, Request

BEGIN = 1_763_164_800
REQUEST = Request(["load1"], "", "", 15.0, 300.0, 300.0, "node")


@pytest.fixture
def files(tmp_path):
    """Two files of 30 hours; the second one begins before the first, and the nodes have a gap of five hours."""
    rng = np.random.default_rng(1)
    for name, hours in (("late", range(14, 30)), ("early", (*range(9), 14))):
        lines = [
            f'load1{{node="n{node}"}} {rng.random()} {BEGIN + 3600 * hour + 60 * minute + node}\n'
            for node in range(3)
            for hour in hours
            for minute in range(60)
        ]
        (tmp_path / name).write_text("".join(lines))
    return [str(tmp_path / "late"), str(tmp_path / "early")]


def samples(source):
    ends, rows = [], []
    for part, until in source.parts():
        ends.append(until)
        one = part.metrics["load1"]
        assert (np.diff(one.times) >= 0).all()
        rows += zip(one.times.tolist(), one.nodes.tolist(), one.values.tolist(), strict=True)
    source.close()
    return ends, sorted(rows)


def test_parts_have_the_samples_of_the_whole(files):
    (end,), whole = samples(read_sources([files], REQUEST))
    assert len(whole) == 3 * 60 * 26
    ends, rows = samples(read_sources([files], REQUEST, part=1000))
    assert rows == whole
    assert len(ends) > 4
    assert ends == sorted(set(ends))
    assert ends[-1] == end


def test_a_cache_has_the_samples_of_the_files(files, tmp_path):
    whole = samples(read_sources([files], REQUEST, part=1000))
    folder = str(tmp_path / "cache")
    assert samples(read_sources([files], REQUEST, part=1000, cached=folder)) == whole
    text = Path(files[0])
    before = text.stat()
    with text.open(
        "r+b"
    ) as file:  # unnoticed: neither at the begin nor at the end, and of the same time
        file.seek(before.st_size // 2)
        file.write(b"what?")
    os.utime(text, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert samples(read_sources([files], REQUEST, cached=folder)) == whole


def test_a_changed_file_or_other_metrics_have_another_cache(files, tmp_path):
    folder = tmp_path / "cache"
    read_sources([files], REQUEST, cached=str(folder))
    with Path(files[0]).open("a") as file:
        file.write(f'load1{{node="new"}} 1 {BEGIN}\n')
    assert "new" in read_sources([files], REQUEST, cached=str(folder)).nodes
    other = Request(["load1", "load5"], "", "", 15.0, 300.0, 300.0, "node")
    read_sources([files], other, cached=str(folder))
    assert len([*folder.iterdir()]) == 3


def test_a_damaged_cache_is_an_error_that_says_what_to_do(files, tmp_path):
    folder = tmp_path / "cache"
    read_sources([files], REQUEST, cached=str(folder))
    (cache,) = folder.iterdir()
    (part,) = cache.glob("part-*")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(BacktestError, match="is damaged: delete it"):
        samples(read_sources([files], REQUEST, cached=str(folder)))


def test_a_folder_that_cannot_be_written_is_one_sentence(files, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BacktestError, match="cannot be written: Not a directory"):
        read_sources([files], REQUEST, cached=str(tmp_path / "file" / "cache"))


def test_only_parts_of_the_range_are_read(files):
    request = REQUEST.__class__(["load1"], "10h", "2h", 15.0, 300.0, 300.0, "node")
    source = read_sources([files], request, part=1)
    ends, rows = samples(source)
    assert ends[-1] == source.period.end
    assert rows[0][0] >= source.start - 3600 - request.stale_after
    assert rows[-1][0] <= source.period.end + 3600
