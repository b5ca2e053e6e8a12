"""A fake source and a raw TCP client for the agent's tests."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import Family, Sample

FIXTURES = Path(__file__).parents[1] / "collectors/fixtures"


def gauge(name: str, value: float, **labels: str) -> Family:
    return Family(name, "gauge", f"Help of {name}.", (Sample(name, tuple(labels.items()), value),))


@dataclass
class FakeSource:
    """A fake collector that yields, or raises, what the test sets."""

    families: Sequence[Family] = ()
    error: Exception | None = None
    before: Callable[[], None] = lambda: None
    runs: int = 0
    seen: list[str] = field(default_factory=list)

    def collect(self) -> Iterable[Family]:
        self.runs += 1
        self.before()
        yield from self.families
        if self.error is not None:
            raise self.error


@pytest.fixture
def source() -> type[FakeSource]:
    return FakeSource


@pytest.fixture
def family() -> Callable[..., Family]:
    return gauge


@pytest.fixture
def xeon() -> Host:
    """A machine whose files do not change."""
    root = FIXTURES / "xeon"
    assert root.is_dir()
    return Host("xeon", root / "proc", root / "sys", root, root / "run/udev/data")


@pytest.fixture(scope="session")
def server_pair(authority) -> tuple[Path, Path]:
    return authority.issue("server")
