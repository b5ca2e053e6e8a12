from collectors.dmmultipath import DmMultipath

BLOCK = "sys/block"
DEVICE = '{device="mpatha",sysfs_name="dm-3"}'
FILES = {
    f"{BLOCK}/dm-3/dm/uuid": "mpath-360000000000000001\n",
    f"{BLOCK}/dm-3/dm/name": "mpatha\n",
    f"{BLOCK}/dm-3/dm/suspended": "0\n",
    f"{BLOCK}/dm-3/size": "2048\n",
    f"{BLOCK}/dm-3/slaves/sda/dev": "8:0\n",
    f"{BLOCK}/dm-3/slaves/sdb/dev": "8:16\n",
    f"{BLOCK}/sda/device/state": "running\n",
    f"{BLOCK}/sdb/device/state": "offline\n",
    f"{BLOCK}/dm-4/dm/uuid": "LVM-abc\n",
}


def test_device_and_the_state_of_its_paths_are_exported(plant, values) -> None:
    assert values(DmMultipath(plant(FILES)).collect()) == {
        'node_dmmultipath_device_info{device="mpatha",sysfs_name="dm-3",uuid="mpath-360000000000000001"}': 1,
        f"node_dmmultipath_device_active{DEVICE}": 1,
        f"node_dmmultipath_device_size_bytes{DEVICE}": 1 << 20,
        f"node_dmmultipath_device_paths{DEVICE}": 2,
        f"node_dmmultipath_device_paths_active{DEVICE}": 1,
        f"node_dmmultipath_device_paths_failed{DEVICE}": 1,
        'node_dmmultipath_path_state{device="mpatha",path="sda",state="running"}': 1,
        'node_dmmultipath_path_state{device="mpatha",path="sdb",state="offline"}': 1,
    }


def test_path_whose_state_cannot_be_read_counts_as_failed(plant, values) -> None:
    host = plant({**FILES, f"{BLOCK}/dm-3/slaves/nvme0n1/dev": "259:0\n"})
    found = values(DmMultipath(host).collect())
    assert found[f"node_dmmultipath_device_paths_failed{DEVICE}"] == 2
    assert 'node_dmmultipath_path_state{device="mpatha",path="nvme0n1",state="unknown"}' in found


def test_suspended_device_is_not_active(plant, values) -> None:
    host = plant({**FILES, f"{BLOCK}/dm-3/dm/suspended": "1\n", f"{BLOCK}/dm-3/size": "large\n"})
    found = values(DmMultipath(host).collect())
    assert found[f"node_dmmultipath_device_active{DEVICE}"] == 0
    assert f"node_dmmultipath_device_size_bytes{DEVICE}" not in found


def test_machine_without_multipath_devices_exports_nothing(plant, values) -> None:
    assert values(DmMultipath(plant({f"{BLOCK}/sda/size": "1\n"})).collect()) == {}
