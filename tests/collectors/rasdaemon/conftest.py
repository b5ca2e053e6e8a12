"""A database of rasdaemon, and the collector that reads it at a given time."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.rasdaemon import Options, Rasdaemon
from tests.collectors.rasdaemon.recorder import Read, Recorder


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "var/lib/rasdaemon/ras-mc_event.db")


@pytest.fixture
def clock() -> list[float]:
    """Unix time, set by the test; by default a month after the timestamps of rows."""
    return [datetime(2026, 4, 1, 12, tzinfo=UTC).timestamp()]


@pytest.fixture
def collector(tmp_path: Path, clock: list[float]) -> Rasdaemon:
    return Rasdaemon(Host(rootfs=tmp_path), Options(), clock=lambda: clock[0])


@pytest.fixture
def read(collector: Rasdaemon, values: Callable[[Iterable[object]], dict[str, float]]) -> Read:
    return lambda: values(collector.collect())
