import pytest

from collectors.interface.sample import SourceAbsentError
from collectors.mountstats import MountStats

EVENTS = " ".join(map(str, range(1, 28)))
MOUNT = f"""\
device nas:/vol mounted on /mnt/a\\040b with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tage:\t13968
\tevents:\t{EVENTS}
\tbytes:\t1 2 3 4 5 6 7 8
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 832 10 11 0 12 6428 6427 1 12154 5 24 26 5726
\txprt:\ttcp 833 20 21 0 22 1 1 0 1 0 1 2 3
\tper-op statistics
\t        NULL: 0 0 0 0 0 0 0 0
\t        READ: 1298 1299 2 207680 1210292152 6 79386 79407 0
"""
OTHER = MOUNT.replace("/mnt/a\\040b", "/mnt/c")
INFO = """\
21 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw
194 21 0:42 / /mnt/a\\040b rw shared:144 - nfs4 nas:/vol rw,vers=4.2,addr=192.168.1.1
195 21 0:42 / /mnt/c rw shared:145 - nfs4 nas:/vol rw,vers=4.2,addr=192.168.1.1
"""
LABELS = 'export="nas:/vol",protocol="tcp",mountaddr="192.168.1.1"'


@pytest.fixture
def found(plant, values) -> dict[str, float]:
    text = f"device /dev/sda1 mounted on / with fstype ext4\n{MOUNT}\n{OTHER}"
    host = plant({"proc/1/mountstats": text, "proc/1/mountinfo": INFO})
    table: dict[str, float] = values(MountStats(host).collect())
    return table


def test_numbers_of_a_mount_are_exported(found) -> None:
    expected = {
        f"age_seconds_total{{{LABELS}}}": 13968,
        f"read_bytes_total{{{LABELS}}}": 1,
        f"total_write_bytes_total{{{LABELS}}}": 6,
        f"write_pages_total{{{LABELS}}}": 8,
        f"event_inode_revalidate_total{{{LABELS}}}": 1,
        f"event_vfs_file_release_total{{{LABELS}}}": 18,
        f"event_truncation_total{{{LABELS}}}": 20,
        f"event_pnfs_write_total{{{LABELS}}}": 27,
        f'transport_bind_total{{{LABELS},transport="0"}}': 10,
        f'transport_idle_time_seconds{{{LABELS},transport="1"}}': 22,
        f'transport_pending_queue_total{{{LABELS},transport="0"}}': 5726,
        f'operations_requests_total{{{LABELS},operation="READ"}}': 1298,
        f'operations_request_time_seconds_total{{{LABELS},operation="READ"}}': 79.407,
    }
    assert {series: found[f"node_mountstats_nfs_{series}"] for series in expected} == expected


def test_mounts_of_one_export_share_its_numbers(found) -> None:
    points = [series for series in found if "mountpoint_info" in series]
    assert points == [
        f'node_mountstats_nfs_mountpoint_info{{{LABELS},mountpoint="{point}"}}'
        for point in ("/mnt/a b", "/mnt/c")
    ]
    assert len([series for series in found if "age_seconds_total" in series]) == 1


def test_columns_of_udp_are_recognized(plant, values) -> None:
    text = "device n:/v mounted on /m with fstype nfs statvers=1.1\n\txprt:\tudp 1 2 3 4 5 6 7 8 9 10\n"
    host = plant({"proc/1/mountstats": text, "proc/1/mountinfo": ""})
    found = values(MountStats(host).collect())
    labels = 'export="n:/v",protocol="udp",mountaddr="",transport="0"'
    assert found[f"node_mountstats_nfs_transport_sends_total{{{labels}}}"] == 3
    assert found[f"node_mountstats_nfs_transport_pending_queue_total{{{labels}}}"] == 10
    assert f"node_mountstats_nfs_transport_connect_total{{{labels}}}" not in found


@pytest.mark.parametrize("line", ["age: x", "bytes: 1 b", "xprt:", "READ: 1 2 3 4 5 6 7 x"])
def test_damaged_line_is_left_out(line: str, plant, values) -> None:
    head = "device n:/v mounted on /m with fstype nfs statvers=1.1\n"
    tail = "xprt: tcp 832 0 1 0 11 6428 6428 0 12154 0 24 26 5726\nWRITE: 1 2 3 4 5 6 7 8\n"

    def found(text: str) -> dict[str, float]:
        return values(
            MountStats(plant({"proc/1/mountstats": text, "proc/1/mountinfo": ""})).collect()
        )

    assert found(f"{head}{line}\n{tail}") == found(head + tail) != {}


def test_machine_without_nfs_exports_nothing(plant, values) -> None:
    text = "device proc mounted on /proc with fstype proc\n"
    host = plant({"proc/1/mountstats": text, "proc/1/mountinfo": INFO})
    assert values(MountStats(host).collect()) == {}


def test_own_mounts_are_read_if_those_of_process_1_are_hidden(plant, values) -> None:
    host = plant({"proc/self/mountstats": MOUNT, "proc/self/mountinfo": INFO})
    assert len(values(MountStats(host).collect())) > 40


def test_missing_files_are_an_absent_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(MountStats(plant({})).collect())
