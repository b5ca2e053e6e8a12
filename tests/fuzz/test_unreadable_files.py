"""A file or folder that cannot be read costs no more samples than one that is not there, and holds up no collector."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.kernelfiles import FILES
from collectors.registry import COLLECTORS
from tests.fuzz.test_odd_tokens import ALL, NAMES, XEON, check, files_of, read


def a_loop(path: Path) -> None:
    """Every call for it fails (ELOOP), also as root, as those for a device that is gone may (EIO, EACCES)."""
    path.symlink_to(path.name)


WITHOUT_NUMA = "devices/system/node"
"""A folder whose absence has a meaning of its own: all huge pages are those of node 0."""
COUNTS_ERRORS = "node_resctrl_unavailable_reads_total"
KINDS: dict[str, Callable[[Path], None]] = {"loop": a_loop, "fifo": os.mkfifo, "folder": Path.mkdir}


@pytest.fixture
def machine(tmp_path: Path) -> Host:
    root = tmp_path / "machine"
    shutil.copytree(XEON, root, symlinks=True)
    udev = root / "run/udev/data"
    return Host(name="x", procfs=root / "proc", sysfs=root / "sys", rootfs=root, udev=udev)


def places_of(name: str, root: Path) -> list[tuple[Path, str]]:
    """Return files and folders that a collector reads, and what to put in their place."""
    files = [path for path in files_of(name, root) if not path.is_symlink()]
    folders = {folder for path in files for folder in path.parents}
    return [
        *((path, kind) for path in files for kind in KINDS),
        *(
            (folder, "loop")
            for folder in sorted(folders)
            if root in folder.parents
            and not folder.is_symlink()
            and not (name == "hugepages" and (root / "sys" / WITHOUT_NUMA).is_relative_to(folder))
        ),
    ]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NAMES)
def test_unreadable_file_costs_no_more_than_an_absent_one(name: str, machine: Host) -> None:
    entry = COLLECTORS[name]

    def collected() -> Iterable[object]:
        FILES._held.clear()
        return list(entry.build(machine, ALL.get(name, entry.options())).collect())

    whole = read(collected)
    assert whole is not None
    for path, kind in places_of(name, machine.rootfs):
        aside = machine.rootfs.parent / "aside"
        path.rename(aside)
        absent = read(collected)
        KINDS[kind](path)
        odd = read(collected)
        path.rmdir() if kind == "folder" else path.unlink()
        aside.rename(path)
        check({sample for sample in whole if COUNTS_ERRORS not in sample}, odd, absent)
