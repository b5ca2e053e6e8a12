from pathlib import Path

import pytest

from collectors import mdadm
from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.mdadm import Array, MdAdm, families, parse

PARSERS = {
    "mdadm": lambda text: mdadm.families(mdadm.parse(text)),
}


HEAD = "Personalities : [raid1] [raid0] [raid6] [raid5] [raid4] [linear]\n"
TAIL = "unused devices: <none>\n"


def test_checked_and_degraded_arrays_are_exported(machine, values) -> None:
    found = values(MdAdm(machine("xeon")).collect())
    assert {s: v for s, v in found.items() if '"md1"' in s and "md_state" not in s} == {
        'node_md_disks{device="md1",state="active"}': 2,
        'node_md_disks{device="md1",state="failed"}': 0,
        'node_md_disks{device="md1",state="spare"}': 0,
        'node_md_disks_required{device="md1"}': 2,
        'node_md_blocks{device="md1"}': 976630464,
        'node_md_blocks_synced{device="md1"}': 168021888,
        'node_md_raid_disks{device="md1"}': 2,
        'node_md_degraded{device="md1"}': 0,
    }
    assert found['node_md_disks{device="md0",state="failed"}'] == 1
    assert found['node_md_degraded{device="md0"}'] == 1
    states = {s for s, value in found.items() if "md_state" in s and value == 1}
    assert states == {
        'node_md_state{device="md1",state="check"}',
        'node_md_state{device="md0",state="active"}',
    }
    assert sum("md_state" in series for series in found) == 10, "each array in each of five states"


@pytest.mark.parametrize(
    ("text", "array"),
    [
        (
            "md3 : active raid6 sda1[8] sdh1[7] sdg1[6] sdf1[5] sde1[11] sdd1[3] sdc1[10] sdb1[9] sdd1[10](S)\n"
            "      5853468288 blocks super 1.2 level 6, 64k chunk, algorithm 2 [8/8] [UUUUUUUU]\n",
            Array("md3", "active", 0, 1, 8, 8, 5853468288, 5853468288),
        ),
        (
            "md6 : active raid1 sdb2[2](F) sdc[1](S) sda2[0]\n"
            "      195310144 blocks [2/1] [U_]\n"
            "      [=>...................]  recovery =  8.5% (16775552/195310144) finish=17.0min speed=259783K/sec\n",
            Array("md6", "recovering", 1, 1, 1, 2, 195310144, 16775552),
        ),
        (
            "md8 : active raid1 sdb1[1] sda1[0]\n"
            "      195310144 blocks [2/2] [UU]\n"
            "      bitmap: 1/2 pages [4KB], 65536KB chunk\n"
            "      [=>...................]  resync =  8.5% (16775552/195310144) finish=17.0min speed=259783K/sec\n",
            Array("md8", "resync", 0, 0, 2, 2, 195310144, 16775552),
        ),
        (
            "md9 : active raid1 sdd2[3] sda2[0]\n      523968 blocks super 1.2 [4/4] [UUUU]\n      \tresync=DELAYED\n",
            Array("md9", "resync", 0, 0, 4, 4, 523968, 0),
        ),
        (
            "md11 : active (auto-read-only) raid1 sdb2[0] sdc2[1]\n      4190208 blocks super 1.2 [2/2] [UU]\n"
            "      \tresync=PENDING\n",
            Array("md11", "resync", 0, 0, 2, 2, 4190208, 0),
        ),
        (
            "md12 : active raid1 sdb2[0] sdc2[1]\n      4190208 blocks super 1.2 [2/2] [UU]\n      \tresync=REMOTE\n",
            Array("md12", "resync", 0, 0, 2, 2, 4190208, None),
        ),
        (
            "md13 : active raid5 sdd[3] sdc[2] sdb[1] sda[0]\n"
            "      2095104 blocks super 1.2 level 5, 512k chunk, algorithm 2 [4/4] [UUUU]\n"
            "      [=>...................]  reshape =  5.3% (56/1047552) finish=0.9min speed=18K/sec\n",
            Array("md13", "reshape", 0, 0, 4, 4, 2095104, 56),
        ),
        (
            "md10 : active raid0 sda1[0] sdb1[1]\n      314159265 blocks 64k chunks\n",
            Array("md10", "active", 0, 0, 2, 2, 314159265, 314159265),
        ),
        (
            "md20 : active (read-only) linear sda1[0] sdb1[1]\n      2095104 blocks super 1.2 0k rounding\n",
            Array("md20", "active", 0, 0, 2, 2, 2095104, 2095104),
        ),
        (
            "md21 : broken raid0 sda1[0] sdb1[1]\n      2095104 blocks super 1.2 512k chunks\n",
            Array("md21", "broken", 0, 0, 2, 2, 2095104, 2095104),
        ),
        (
            "md219 : inactive sdb[2](S) sdc[1](S) sda[0](S)\n        7932 blocks super external:imsm\n",
            Array("md219", "inactive", 0, 3, 0, 0, 7932, 7932),
        ),
        (
            "md30 : active faulty sda1[0]\n      1046528 blocks super 1.2 nfaults=0\n",
            Array("md30", "active", 0, 0, None, None, 1046528, 1046528),
        ),
        (
            "md31 : active raid1 sda1[0]\n",
            Array("md31", "active", 0, 0, None, None, None, None),
        ),
    ],
)  # fmt: skip
def test_states_and_lines_of_all_kernels_are_parsed(text: str, array: Array) -> None:
    assert parse(f"{HEAD}{text}       \n{TAIL}") == [array]
    assert parse(text) == [array], "truncated"


def test_unknown_value_has_no_sample(values) -> None:
    found = values(families([Array("md0", "active", 0, 0, None, None, None, None)]))
    assert not any(name in series for series in found for name in ("blocks", "required"))
    assert 'node_md_disks{device="md0",state="active"}' not in found


@pytest.mark.parametrize("text", ["", HEAD, HEAD + TAIL, "read_ahead 1024 sectors\nEvent: 3\n"])
def test_machine_without_arrays_exports_nothing(text: str) -> None:
    assert parse(text) == []


@pytest.mark.parametrize(
    ("numbers", "array"),
    [
        (f"{'9' * 30} blocks [2/2] [UU]", Array("md0", "active", 0, 0, 2, 2, None, None)),
        (f"8 blocks [2/{'9' * 30}] [UU]", Array("md0", "active", 0, 0, None, 2, 8, 8)),
        (f"8 blocks [{'9' * 30}/2] [UU]", Array("md0", "active", 0, 0, 2, None, 8, 8)),
    ],
)
def test_absurd_number_is_left_out(numbers: str, array: Array) -> None:
    well = "md1 : active raid1 sdb[0]\n      8 blocks [2/2] [UU]\n"
    found = parse(f"md0 : active raid1 sda[0]\n      {numbers}\n{well}")
    assert found == [array, Array("md1", "active", 0, 0, 2, 2, 8, 8)]


def test_array_without_any_disk_is_degraded(plant, values) -> None:
    text = "md1 : active raid5 super 1.2 level 5, 64k chunk, algorithm 2 [5/0] [_____]\n\n"
    found = values(MdAdm(plant({"proc/mdstat": HEAD + text + TAIL})).collect())
    assert found['node_md_disks{device="md1",state="active"}'] == 0
    assert found['node_md_disks_required{device="md1"}'] == 5


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"level": "raid5", "raid_disks": "11 (10)", "degraded": "1"},
            {'node_md_raid_disks{device="md5"}': 11, 'node_md_degraded{device="md5"}': 1},
        ),
        (
            {"level": "raid0", "raid_disks": "2"},
            {'node_md_raid_disks{device="md5"}': 2, 'node_md_degraded{device="md5"}': 0},
        ),
        ({"level": "container", "raid_disks": ""}, {'node_md_degraded{device="md5"}': 0}),
        ({"level": "raid1", "degraded": "?"}, {}),
        ({}, {}),
    ],
)
def test_sysfs_values_are_added(
    plant, values, files: dict[str, str], found: dict[str, float]
) -> None:
    base = "sys/block/md5/md"
    host = plant({"proc/mdstat": HEAD + TAIL, "sys/block/sda/size": "1\n"})
    plant({f"{base}/{name}": f"{text}\n" for name, text in files.items()})
    assert values(MdAdm(host).collect()) == found


def test_missing_mdstat_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(MdAdm(Host(procfs=tmp_path, sysfs=tmp_path)).collect())
