"""A simulated node's procfs, sysfs and GPUs: this machine's files, and devices of its own that faults change.

Each node has an ext4 file system, a memory controller with a DIMM, a network interface and two GPUs. Everything else is links to
this machine's files. Files are replaced, never edited: an agent reads the old content or the new.
"""

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sandbox.endpoints import write_atomically

DISK, LINK, DIMM = "sda1", "ens1f0", "CPU_SrcID#0_Ha#0_Chan#1_DIMM#0"
GPUS = ("0000:3b:00", "0000:5e:00")
"""PCI addresses as the kernel's log has them."""
Files = Mapping[str, "str | Files"]
"""Files by name: a text, or a directory."""
_PROC, _SYS = Path("/proc"), Path("/sys")
_DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n"
_EXT4 = {"errors_count": "0", "warning_count": "0", "first_error_time": "0", "last_error_time": "0"}
_EDAC = {
    **{f"{kind}_{of}count": "0" for kind in ("ce", "ue") for of in ("", "noinfo_")},
    "mc_name": "Skylake Socket#0 IMC#0",
}
_DIMM = {"dimm_ce_count": "0", "dimm_ue_count": "0", "dimm_label": DIMM}
_NET = {"operstate": "up", "carrier": "1", "carrier_changes": "1", "carrier_down_count": "0", "carrier_up_count": "1", "flags": "0x1003", "ifindex": "117", "mtu": "9000", "speed": "100000", "type": "1"}  # fmt: skip


class Machine:
    """The simulated files of one node, below its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.procfs, self.sysfs = folder / "host/proc", folder / "host/sys"
        self.gpus = folder / "host/gpus.json"

    def create(self) -> None:
        """Make the files, without faults; those of an earlier cluster are deleted."""
        shutil.rmtree(self.folder / "host", ignore_errors=True)
        disk = self.folder / "data"
        disk.mkdir(parents=True, exist_ok=True)
        mount = f"9999 1 8:1 / {_escaped(str(disk))} rw,relatime - ext4 /dev/{DISK} rw\n"
        kernel = {"version": _DRIVER}
        own_mounts = (_PROC / "self/mountinfo").read_text()
        _make(
            self.procfs,
            _PROC,
            {"1": {"mountinfo": own_mounts + mount}, "driver": {"nvidia": kernel}},
        )
        _make(
            self.sysfs,
            _SYS,
            {
                "fs": {"ext4": {DISK: _EXT4}},
                "devices": {"system": {"edac": {"mc": {"mc0": {**_EDAC, "dimm0": _DIMM}}}}},
                "class": {"net": {LINK: _NET}},
                "kernel": {"oops_count": "0"},
            },
        )
        self._save_gpus({pci: {"recovery_action": 0, "xids": []} for pci in GPUS})

    def record_file_system_error(self) -> None:
        """Count an error in the ext4 file system's superblock."""
        now = str(int(time.time()))
        self._add("fs/ext4", DISK, errors_count=1)
        first = self.sysfs / "fs/ext4" / DISK / "first_error_time"
        if first.read_text() == "0":
            write_atomically(first, now)
        write_atomically(first.with_name("last_error_time"), now)

    def check_file_system(self) -> None:
        """Do as e2fsck does: the superblock records no errors."""
        self._write("fs/ext4", DISK, _EXT4)

    def mount(self, *, read_only: bool) -> None:
        """Make the file system read-only, as the kernel does after an error, or writable again."""
        path = self.procfs / "1/mountinfo"
        old, new = ("rw", "ro") if read_only else ("ro", "rw")
        source = f" - ext4 /dev/{DISK} "
        *others, last = path.read_text().splitlines()
        write_atomically(path, "".join(f"{line}\n" for line in (*others, last.replace(source + old, source + new))))  # fmt: skip

    def correct_memory_errors(self, number: int) -> None:
        """Count errors of the DIMM that ECC corrected."""
        self._add("devices/system/edac/mc", "mc0", ce_count=number)
        self._add("devices/system/edac/mc/mc0", "dimm0", dimm_ce_count=number)

    def replace_dimm(self) -> None:
        """Count memory errors from 0, as after a boot with another DIMM."""
        self._write("devices/system/edac/mc", "mc0", _EDAC)
        self._write("devices/system/edac/mc/mc0", "dimm0", _DIMM)

    def change_link(self, *, up: bool) -> None:
        """Lose or regain the carrier of the network interface; nothing where it is so already."""
        if (self.sysfs / "class/net" / LINK / "carrier").read_text() == str(int(up)):
            return
        count = {"carrier_up_count" if up else "carrier_down_count": 1}
        self._add("class/net", LINK, carrier_changes=1, **count)
        self._write("class/net", LINK, {"operstate": "up" if up else "down", "carrier": str(int(up))})  # fmt: skip

    def count_oops(self) -> None:
        """Count an oops of the kernel, until it boots again."""
        self._add("", "kernel", oops_count=1)

    def report_xid(self, pci: str, code: int, recovery_action: int) -> None:
        """Let the driver report an XID error and what must be done; of a GPU that it does not know, nothing."""

        def change(gpu: dict[str, Any]) -> None:
            gpu["xids"].append(code)
            gpu["recovery_action"] = max(gpu["recovery_action"], recovery_action)

        self._change_gpu(pci, change)

    def reset_gpu(self, pci: str) -> None:
        """Let the driver report that nothing must be done."""
        self._change_gpu(pci, lambda gpu: gpu.update(recovery_action=0))

    def _change_gpu(self, pci: str, change: Callable[[dict[str, Any]], None]) -> None:
        gpus = json.loads(self.gpus.read_text())
        if pci.lower() in gpus:
            change(gpus[pci.lower()])
            self._save_gpus(gpus)

    def _save_gpus(self, gpus: Mapping[str, object]) -> None:
        write_atomically(self.gpus, json.dumps(gpus))

    def _add(self, directory: str, device: str, **counts: int) -> None:
        folder = self.sysfs / directory / device
        self._write(directory, device, {name: str(int((folder / name).read_text()) + number) for name, number in counts.items()})  # fmt: skip

    def _write(self, directory: str, device: str, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            write_atomically(self.sysfs / directory / device / name, text)


def _make(folder: Path, real: Path, own: Files) -> None:
    """Make a directory with links to the entries of a real one, but for processes, and files of its own in place of others."""
    folder.mkdir(parents=True)
    try:
        others = [*real.iterdir()]
    except OSError:
        others = []
    for other in others:
        if other.name not in own and not (other.name.isdigit() and real == _PROC):
            (folder / other.name).symlink_to(other)
    for name, content in own.items():
        if isinstance(content, str):
            (folder / name).write_text(content)
        else:
            _make(folder / name, real / name, content)


def _escaped(path: str) -> str:
    """Return a path as mountinfo has it."""
    return re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", path)
