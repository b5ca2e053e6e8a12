"""Fixture machines as directories, and families as a table that is easy to compare."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import Family

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
    """Series as Prometheus formats them → their values."""

    def table(families: Iterable[Family]) -> dict[str, float]:
        found: dict[str, float] = {}
        for family in families:
            for name, labels, value in family.samples:
                text = ",".join(f'{key}="{content}"' for key, content in labels)
                series = f"{name}{{{text}}}" if labels else name
                assert series not in found, "duplicate series"
                found[series] = value
        return found

    return table


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[Mapping[str, str]], Host]:
    """A host below tmp_path with these files, such as `sys/kernel/oops_count`; repeated calls add and overwrite."""

    def grow(files: Mapping[str, str]) -> Host:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return Host(procfs=tmp_path / "proc", sysfs=tmp_path / "sys", rootfs=tmp_path)

    return grow


@pytest.fixture
def failing_reads() -> Callable[[Path], None]:
    """Make reads of a file fail with EIO, as for an attribute of a dead device."""

    def fall(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to("/proc/self/mem")
        with pytest.raises(OSError, match="Input/output error"):
            path.read_bytes()

    return fall
