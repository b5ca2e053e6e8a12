from pathlib import Path

import pytest

from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError
from collectors.nvme import Nvme

DEVICE = "sys/class/nvme/nvme0"
NAMESPACE = 'device="nvme0",nsid="1"'


def test_drive_and_its_namespace_are_exported(machine, values) -> None:
    assert values(Nvme(machine("xeon")).collect()) == {
        'node_nvme_info{device="nvme0",firmware_revision="GDC5602Q",model="SAMSUNG MZQL23T8HCLS-00A07",'
        'serial="S64HNE0R500123",state="live",cntlid="6"}': 1,
        f'node_nvme_namespace_info{{{NAMESPACE},ana_state="unknown"}}': 1,
        f"node_nvme_namespace_capacity_bytes{{{NAMESPACE}}}": 7501476528 * 512,
        f"node_nvme_namespace_size_bytes{{{NAMESPACE}}}": 7501476528 * 512,
        f"node_nvme_namespace_used_bytes{{{NAMESPACE}}}": 104857600 * 512,
        f"node_nvme_namespace_logical_block_size_bytes{{{NAMESPACE}}}": 512,
    }


def test_size_of_a_drive_with_4_kib_blocks_is_correct(plant, values) -> None:
    host = plant(
        {
            f"{DEVICE}/nvme0n1/{file}": f"{text}\n"
            for file, text in {
                "size": 7501476528,  # sectors of 512 bytes, always
                "nuse": 1000,  # blocks
                "queue/logical_block_size": 4096,
                "ana_state": "optimized",
            }.items()
        }
    )
    found = values(Nvme(host).collect())
    assert found[f"node_nvme_namespace_size_bytes{{{NAMESPACE}}}"] == 3840755982336
    assert found[f"node_nvme_namespace_used_bytes{{{NAMESPACE}}}"] == 4096000
    assert found[f'node_nvme_namespace_info{{{NAMESPACE},ana_state="optimized"}}'] == 1


def test_attribute_missing_in_an_older_kernel_is_absent(plant, values) -> None:
    host = plant({f"{DEVICE}/model": "QEMU NVMe Ctrl\n", f"{DEVICE}/nvme0n1/size": "2048\n"})
    assert values(Nvme(host).collect()) == {
        'node_nvme_info{device="nvme0",firmware_revision="",model="QEMU NVMe Ctrl",serial="",state="",cntlid=""}': 1,
        f'node_nvme_namespace_info{{{NAMESPACE},ana_state="unknown"}}': 1,
        f"node_nvme_namespace_capacity_bytes{{{NAMESPACE}}}": 1 << 20,
        f"node_nvme_namespace_size_bytes{{{NAMESPACE}}}": 1 << 20,
    }


def test_changing_values_are_read_each_time_and_an_unreadable_file_hides_no_other(
    plant, values, failing_reads, tmp_path: Path
) -> None:
    files = {f"{DEVICE}/state": "live\n", f"{DEVICE}/hwmon1/name": "nvme\n"}
    collector = Nvme(plant(files))
    assert 'state="live"' in str(values(collector.collect()))
    plant({f"{DEVICE}/state": "resetting\n", f"{DEVICE}/nvme0n2/size": "8\n"})
    failing_reads(tmp_path / DEVICE / "nvme0n2/nuse")
    found = values(collector.collect())
    assert 'state="resetting"' in str(found)
    assert found['node_nvme_namespace_size_bytes{device="nvme0",nsid="2"}'] == 4096
    assert not any("used" in series for series in found)


def test_missing_nvme_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Nvme(Host(sysfs=tmp_path)).collect())
