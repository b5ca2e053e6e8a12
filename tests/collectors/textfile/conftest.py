"""A directory of .prom files with its collector, on a clock that a test sets."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.textfile import Options, TextFile

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
