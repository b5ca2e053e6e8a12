import pytest

from collectors.interface.sample import CollectorError
from collectors.shared.mounts import Mount, parse

TEXT = (
    "29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro\n"
    "30 29 0:6 / /sys/kernel/security rw,nosuid - securityfs securityfs rw\n"
    "98 29 0:49 / /mnt/with\\040blank\\134and\\011more rw shared:7 master:1 propagate_from:2 - nfs4 nas:/vol\\0401 rw,vers=4.2\n"
    "99 29 8:17 / /data ro,relatime - xfs /dev/sdb1 rw,attr2\n"
    "100 29 8:33 / /broken rw,relatime - ext4 /dev/sdc1 rw,emergency_ro\n"
    "101 29 0:50 / /empty rw - tmpfs  rw,size=4k\n"
)


def test_mounts_have_type_and_place() -> None:
    assert list(parse(TEXT)) == [
        Mount(
            "/dev/nvme0n1p2", "259", "2", "/", "ext4", read_only=False, emergency_read_only=False
        ),
        Mount(
            "securityfs",
            "0",
            "6",
            "/sys/kernel/security",
            "securityfs",
            read_only=False,
            emergency_read_only=False,
        ),
        Mount(
            "nas:/vol\\0401",
            "0",
            "49",
            "/mnt/with blank\\and\tmore",
            "nfs4",
            read_only=False,
            emergency_read_only=False,
        ),
        Mount("/dev/sdb1", "8", "17", "/data", "xfs", read_only=True, emergency_read_only=False),
        Mount("/dev/sdc1", "8", "33", "/broken", "ext4", read_only=True, emergency_read_only=True),
        Mount("", "0", "50", "/empty", "tmpfs", read_only=False, emergency_read_only=False),
    ]


def test_empty_mountinfo_has_no_mounts() -> None:
    assert list(parse("")) == []


@pytest.mark.parametrize(
    "text",
    [
        "29 1 259:2 / / rw",
        "29 1 259:2 / / rw shared:1 ext4 /dev/sda1 rw",
        "29 1 259 / / rw - ext4 /dev/sda1 rw",
        "29 1 a:b / / rw - ext4 /dev/sda1 rw",
        "29 1 259:2 / / rw - ext4 /dev/sda1",
        "29 1 18446744073709551616:2 / / rw - ext4 /dev/sda1 rw",
        "29 1 259:2147483648 / / rw - ext4 /dev/sda1 rw",
    ],
)
def test_invalid_mountinfo_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="mountinfo"):
        list(parse(text))
