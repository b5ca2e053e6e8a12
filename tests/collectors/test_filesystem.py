import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors import filesystem
from collectors.filesystem import Filesystem, Options
from collectors.interface import guard
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.shared import mounts
from tests.patience import PATIENCE

PARSERS = {
    "filesystem": lambda text: filesystem.families((m, "error") for m in mounts.parse(text)),
}

SAMPLES = {
    "mounts": (
        """\
29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
98 29 0:49 / /mnt/with\\040blank ro shared:7 master:1 - nfs4 nas:/vol rw,vers=4.2
""",
        lambda t: filesystem.families((m, "") for m in mounts.parse(t)),
    ),
}


BRIEF = Options(filesystem_timeout=2.0)
LINE = "{number} 1 {device} / {point} {options} - {kind} {source} {super}\n"
DISK = 'device="/dev/sda1",mountpoint="/",fstype="ext4",device_error=""'


def sizes(free: int = 250) -> os.statvfs_result:
    """A file system of 1000 blocks of 4096 bytes, with 64 inodes."""
    return os.statvfs_result((8192, 4096, 1000, free, free - 50, 64, 60, 60, 4096, 255))


class Machine:
    """A fake machine with mounts that answer, fail or hang."""

    def __init__(self, root: Path) -> None:
        self.host = Host(procfs=root / "proc", rootfs=Path("/"))
        self.errors: dict[str, int] = {}
        self.dead: set[str] = set()
        self.asked: list[str] = []
        self.awake = threading.Event()

    def mount(self, point: str, *, process: str = "1", **words: str) -> None:
        known = {
            "number": "29",
            "device": "8:1",
            "kind": "ext4",
            "source": "/dev/sda1",
            "options": "rw",
            "super": "rw",
        }
        path = self.host.procfs / process / "mountinfo"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as mountinfo:
            mountinfo.write(LINE.format(point=point, **(known | words)))

    def ask(self, path: str) -> os.statvfs_result:
        self.asked.append(path)
        if path in self.dead:
            assert self.awake.wait(PATIENCE)
        if (number := self.errors.get(path)) is not None:
            raise OSError(number, os.strerror(number))
        return sizes()

    def collector(self, options: Options = Options(), **paths: Path) -> Filesystem:  # noqa: B008
        host = Host(procfs=self.host.procfs, **paths)
        return Filesystem(host, options, statvfs=self.ask)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.awake.set()


def test_sizes_are_in_bytes(node: Machine, values) -> None:
    node.mount("/")
    assert values(node.collector().collect()) == {
        f"node_filesystem_size_bytes{{{DISK}}}": 4096000,
        f"node_filesystem_free_bytes{{{DISK}}}": 1024000,
        f"node_filesystem_avail_bytes{{{DISK}}}": 819200,
        f"node_filesystem_files{{{DISK}}}": 64,
        f"node_filesystem_files_free{{{DISK}}}": 60,
        f"node_filesystem_readonly{{{DISK}}}": 0,
        'node_filesystem_emergency_readonly{device="/dev/sda1",mountpoint="/",fstype="ext4"}': 0,
        f"node_filesystem_device_error{{{DISK}}}": 0,
        'node_filesystem_mount_info{device="/dev/sda1",major="8",minor="1",mountpoint="/"}': 1,
    }


def points(found: dict[str, float]) -> set[str]:
    return {s.split('mountpoint="')[1].split('"')[0] for s in found if "device_error" in s}


def test_pseudo_file_systems_and_container_layers_are_excluded(node: Machine, values) -> None:
    node.mount("/")
    node.mount("/proc", kind="proc")
    node.mount("/run/user/0", kind="tmpfs")
    node.mount("/var/lib/docker/overlay2/1a/merged", kind="overlay")
    node.mount("/var/lib/docker/volumes/x", kind="ext4")
    node.mount("/run/credentials/systemd-sysusers.service", kind="ramfs")
    node.mount("/dev/shm", kind="tmpfs")
    node.mount("/snap/core/1", kind="squashfs")
    node.mount("/sysroot", kind="xfs")
    assert points(values(node.collector().collect())) == {"/", "/run/user/0", "/sysroot"}


def test_include_replaces_the_default_exclude(node: Machine, values) -> None:
    node.mount("/")
    node.mount("/dev/shm", kind="tmpfs")
    node.mount("/merged", kind="overlay")
    some = Options(filesystem_points_include="^/dev", filesystem_kinds_include="tmpfs|overlay")
    assert points(values(node.collector(some).collect())) == {"/dev/shm"}
    less = Options(filesystem_points_include="^/(dev|merged)", filesystem_points_exclude="shm")
    assert points(values(node.collector(less).collect())) == set()


def test_duplicate_mount_is_exported_once(node: Machine, values) -> None:
    node.mount("/data", options="rw")
    node.mount("/data", options="ro", device="8:2")
    node.mount("/data", source="/dev/sdb1")
    found = values(node.collector().collect())
    assert len([s for s in found if s.startswith("node_filesystem_size_bytes")]) == 2
    assert node.asked == ["/data"]


def test_read_only_is_exported(node: Machine, values) -> None:
    node.mount("/data", options="ro,noatime")
    found = values(node.collector().collect())
    assert [v for s, v in found.items() if "readonly" in s] == [1, 0]


def test_only_a_writable_mount_is_read_only_in_emergency(node: Machine, values) -> None:
    node.mount("/", super="ro,errors=remount-ro")
    node.mount("/data", device="8:2", super="rw,emergency_ro")
    node.mount("/image", device="8:3", options="ro", super="ro")
    node.mount("/bound", device="8:4", options="ro")
    found = values(node.collector().collect())
    emergency = {s for s, value in found.items() if value and "emergency" in s}
    series = (
        'node_filesystem_emergency_readonly{{device="/dev/sda1",mountpoint="{}",fstype="ext4"}}'
    )
    assert emergency == {series.format(point) for point in ("/", "/data")}


def test_mount_with_an_error_exports_only_the_error(node: Machine, values) -> None:
    node.mount("/")
    node.mount("/mnt", source="nas:/x", kind="nfs", options="ro")
    node.errors["/mnt"] = errno.ESTALE
    found = values(node.collector().collect())
    nfs = 'device="nas:/x",mountpoint="/mnt",fstype="nfs",device_error="stale file handle"'
    assert {s: v for s, v in found.items() if "nas" in s} == {
        f"node_filesystem_device_error{{{nfs}}}": 1,
        f"node_filesystem_readonly{{{nfs}}}": 1,
        'node_filesystem_emergency_readonly{device="nas:/x",mountpoint="/mnt",fstype="nfs"}': 0,
    }
    assert f"node_filesystem_size_bytes{{{DISK}}}" in found


def test_dead_mounts_delay_no_other_and_are_not_retried_until_they_return(
    node: Machine, values
) -> None:
    dead = {f"/mnt/{number}" for number in range(3)}
    for point in sorted(dead):
        node.mount(point, source=f"nas:{point}", kind="nfs")
    node.mount("/")
    node.dead = dead
    collector = node.collector(BRIEF)
    for _ in range(3):
        found = values(collector.collect())
        timeouts = {s for s, v in found.items() if "mountpoint timeout" in s and v == 1}
        assert {s.split('mountpoint="')[1].split('"')[0] for s in timeouts} == dead
        assert found[f"node_filesystem_size_bytes{{{DISK}}}"] == 4096000
    assert {point: node.asked.count(point) for point in dead} == dict.fromkeys(dead, 1)
    assert node.asked.count("/") == 3
    node.awake.set()
    deadline = time.monotonic() + PATIENCE
    while any("timeout" in series for series in values(collector.collect())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = values(collector.collect())
    assert len([s for s in found if "size_bytes" in s]) == 4, "all are back"


def test_mount_changes_are_noticed(node: Machine, values) -> None:
    node.mount("/")
    collector = node.collector()
    assert points(values(collector.collect())) == {"/"}
    node.mount("/data")
    assert points(values(collector.collect())) == {"/", "/data"}


def test_host_root_mounted_elsewhere_is_read_there_with_host_paths(node: Machine, values) -> None:
    node.mount("/")
    node.mount("/host/root", source="/dev/sdb1")
    node.mount("/host/root/home", source="/dev/sdc1")
    node.mount("/host/rootless", source="/dev/sdd1")
    found = values(node.collector(rootfs=Path("/host/root")).collect())
    assert points(found) == {"/", "/home", "/host/rootless"}
    assert sorted(node.asked) == ["/host/root/", "/host/root/home", "/host/root/host/rootless"]


def test_own_mounts_are_read_if_those_of_process_1_are_hidden(node: Machine, values) -> None:
    node.mount("/own", process="self")
    assert points(values(node.collector().collect())) == {"/own"}
    node.mount("/")
    assert points(values(node.collector().collect())) == {"/"}


def test_invalid_path_is_an_error_not_a_hang(node: Machine, values) -> None:
    node.mount("/a\0b")
    collector = Filesystem(node.host, Options())
    found = values(collector.collect())
    assert [s for s, v in found.items() if 'device_error="invalid argument"' in s and v == 1]


def test_missing_procfs_is_an_absent_source(node: Machine) -> None:
    with pytest.raises(SourceAbsentError):
        list(node.collector().collect())


def test_invalid_mountinfo_is_rejected(node: Machine) -> None:
    node.mount("/", device="none")
    with pytest.raises(CollectorError, match="mountinfo"):
        list(node.collector().collect())


def test_this_machine_is_read(values) -> None:
    found = values(Filesystem(Host(), Options(filesystem_points_include="^/$")).collect())
    real = os.statvfs("/")
    total = [v for s, v in found.items() if s.startswith("node_filesystem_size_bytes")]
    assert total in ([real.f_blocks * real.f_frsize], []), "none where / is an overlay"


ROOT = "25 1 8:3 / / rw,relatime shared:1 - ext4 /dev/sda3 rw,errors=remount-ro\n"
DATA = "52 25 8:4 / /srv/data rw,relatime shared:20 - xfs /dev/sda4 rw,attr2\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "44 25 0:61 / /Docker/host rw,noatime - 9p C:\\134Program\\040Files\\134Docker "
            "rw,aname=drvfs;path=C:\\Program Files\\Docker\\resources;symlinkroot=/mnt/,cache=5\n",
            ["/Docker/host"],
        ),
        ("44 25 0:61 / /x rw - fuse a - b rw,user_id=0\n", ["/x"]),
        ("44 25 nonsense / /x rw - 9p a rw\n", []),
        ("44 25 0:61 / /x\n", []),
        ("\n", []),
    ],
)
def test_odd_line_hides_no_other_mount(line: str, found: list[str], tmp_path: Path, values) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1/mountinfo").write_text(ROOT + line + DATA)
    collector = Filesystem(Host(procfs=tmp_path), BRIEF, statvfs=lambda _: sizes())
    assert points(values(collector.collect())) == {"/", "/srv/data", *found}
    assert [m.point for m in mounts.parse(ROOT + line + DATA)] == ["/", *found, "/srv/data"]


def test_odd_line_is_counted_at_each_scrape_though_the_mounts_are_the_same(
    tmp_path: Path, values
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1/mountinfo").write_text(f"{ROOT}44 25 0:61 / /x\n")
    collector = Filesystem(Host(procfs=tmp_path), BRIEF, statvfs=lambda _: sizes())
    for _ in range(3):
        skipped = guard.begin()
        values(collector.collect())
        assert len(skipped) == 1


def test_mount_point_that_is_not_utf8_is_read(tmp_path: Path, values) -> None:
    point = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(point)  # noqa: PTH102 (not UTF-8)
    device = os.stat(point).st_dev  # noqa: PTH116
    (tmp_path / "1").mkdir()
    line = f"29 1 {os.major(device)}:{os.minor(device)} / {point} rw - xfs /dev/sdb1 rw\n"
    (tmp_path / "1/mountinfo").write_bytes(os.fsencode(line))
    found = values(Filesystem(Host(procfs=tmp_path), BRIEF).collect())
    shown = f'device="/dev/sdb1",mountpoint="{tmp_path}/caf\ufffd",fstype="xfs",device_error=""'
    assert found[f"node_filesystem_size_bytes{{{shown}}}"] > 0


@pytest.mark.parametrize(
    ("lines", "emergency"),
    [
        (["rw,relatime - ext4 /dev/sda3 ro,errors=remount-ro"], {"/m0"}),
        (["rw,relatime - ext4 /dev/sda3 rw,emergency_ro"], {"/m0"}),
        (["rw,relatime - squashfs /dev/loop3 ro,errors=continue"], set()),
        (["rw - erofs /dev/loop4 ro,user_xattr", "rw - iso9660 /dev/sr0 ro"], set()),
        (["rw - romfs /dev/mtd1 ro", "rw - cramfs /dev/mtd2 ro"], set()),
        (["rw - overlay overlay ro,lowerdir=/srv/a:/srv/b"], set()),
        (["rw - overlay overlay ro,lowerdir=/a,upperdir=/u,workdir=/w"], {"/m0"}),
        (["ro,relatime - ext4 /dev/sda3 ro"], set()),
        (["ro - ext4 /dev/sda3 ro", "rw - ext4 /dev/sda3 ro"], set()),
        (["rw - ext4 /dev/sda3 ro", "ro - ext4 /dev/sda3 ro", "rw - ext4 /dev/sda3 ro"], {"/m0", "/m2"}),
        (["ro - ext4 /dev/sda3 rw", "rw - ext4 /dev/sda3 rw"], set()),
    ],
)  # fmt: skip
def test_emergency_is_neither_nature_nor_an_administrators_remount(
    lines: list[str], emergency: set[str]
) -> None:
    """Of one device number each: bind mounts of one file system."""
    text = "".join(
        f"{number} 1 {'8:3' if 'ext4' in line else f'7:{number}'} / /m{number} {line}\n"
        for number, line in enumerate(lines)
    )
    assert {m.point for m in mounts.parse(text) if m.emergency_read_only} == emergency


def test_other_file_system_at_the_path_is_an_error_not_its_size(tmp_path: Path, values) -> None:
    """A unit with PrivateTmp or ProtectHome has other mounts than process 1."""
    device = os.stat(tmp_path).st_dev  # noqa: PTH116
    own = f"{os.major(device)}:{os.minor(device)}"
    for name in ("here", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "1").mkdir()
    (tmp_path / "1/mountinfo").write_text(
        f"29 1 {own} / {tmp_path}/here rw - ext4 /dev/sda1 rw\n"
        f"30 1 8:77 / {tmp_path}/home rw - ext4 /dev/sda3 rw\n"
    )
    found = values(Filesystem(Host(procfs=tmp_path), BRIEF).collect())
    assert points({s: v for s, v in found.items() if "size_bytes" in s}) == {f"{tmp_path}/here"}
    errors = {s: v for s, v in found.items() if "node_filesystem_device_error" in s}
    assert [v for s, v in errors.items() if f"{tmp_path}/home" in s] == [1]
    assert any('device_error="another file system at this path"' in s for s in errors)


@pytest.mark.parametrize(("mounted", "is_own"), [("0:40", True), ("0:41", False), (None, True)])
def test_subvolume_of_btrfs_is_compared_by_the_agents_own_mounts(
    mounted: str | None, is_own: bool, tmp_path: Path, values
) -> None:
    """Its device number is not the file system's."""
    for process in ("1", "self"):
        (tmp_path / process).mkdir()
    line = "29 1 {} /@home /home rw - btrfs /dev/sda3 rw\n"
    (tmp_path / "1/mountinfo").write_text(line.format("0:40"))
    if mounted is not None:
        (tmp_path / "self/mountinfo").write_text(line.format(mounted))
    collector = Filesystem(
        Host(procfs=tmp_path), BRIEF, statvfs=lambda _: sizes(), device=lambda _: os.makedev(0, 52)
    )
    found = values(collector.collect())
    assert any("size_bytes" in series for series in found) == is_own
