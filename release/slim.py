"""Removes from an image what its program does not need: shells, package managers, setuid files, pip, manuals.

The last step of an image, run by its own Python; what is deleted is gone, since the result is copied to an empty image.
"""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = (
    *("sh", "dash", "bash", "rbash", "perl", "perl5*", "apt", "apt-*", "dpkg", "dpkg-*", "debconf*", "deb-systemd*"),
    *("su", "login", "passwd", "adduser", "useradd", "pip", "pip3*", "idle*", "pydoc*", "2to3*", "python*-config"),
)  # fmt: skip
"""File names below any bin or sbin."""
FOLDERS = (
    *("usr/lib/apt", "usr/lib/dpkg", "usr/share/perl*", "usr/lib/*/perl*", "etc/apt", "var/lib/apt", "var/cache"),
    *("usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/bash-completion", "usr/share/debconf"),
    *("usr/local/lib/python3*/ensurepip", "usr/local/lib/python3*/idlelib", "usr/local/lib/python3*/test"),
    *("usr/local/lib/python3*/site-packages/*", "usr/lib/python3*/ensurepip", "usr/share/python-wheels", "opt/tools", "opt/slim.py"),
)  # fmt: skip
"""Folders. The list of packages (var/lib/dpkg/status) and their licences stay, for scanners."""


def main(root: Path) -> int:
    """Remove all of it below a folder; return the exit status."""
    for path in sorted({*unneeded(root)}, reverse=True):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in files(root):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
            path.unlink()
    return 0


def unneeded(root: Path) -> Iterator[Path]:
    """Yield the programs and folders that exist."""
    for folder in ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin"):
        for name in PROGRAMS:
            yield from (root / folder).glob(name)
    for pattern in FOLDERS:
        yield from root.glob(pattern)


def files(root: Path) -> Iterator[Path]:
    """Yield all files of one file system."""
    device = root.stat().st_dev
    for folder, names, found in os.walk(root):
        here = Path(folder)
        names[:] = [name for name in names if (here / name).lstat().st_dev == device]
        yield from (here / name for name in found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "/")))
