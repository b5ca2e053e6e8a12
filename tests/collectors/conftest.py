"""Machines that are directories, and families as a table that is easy to compare."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from collectors.host import Host
from collectors.sample import Family

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def machine() -> Callable[[str], Host]:
    """A host whose procfs and sysfs are in fixtures/<name>."""

    def find(name: str) -> Host:
        root = FIXTURES / name
        assert root.is_dir()
        return Host(
            name=name,
            procfs=root / "proc",
            sysfs=root / "sys",
            rootfs=root,
            udev=root / "run/udev/data",
        )

    return find


@pytest.fixture
def values() -> Callable[[Iterable[Family]], dict[str, float]]:
    """Series as Prometheus writes them, to their values."""

    def table(families: Iterable[Family]) -> dict[str, float]:
        found: dict[str, float] = {}
        for family in families:
            for name, labels, value in family.samples:
                text = ",".join(f'{key}="{content}"' for key, content in labels)
                series = f"{name}{{{text}}}" if labels else name
                assert series not in found, "a series came twice"
                found[series] = value
        return found

    return table
