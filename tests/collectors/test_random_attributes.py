"""Device collectors yield valid metrics or CollectorError for any file content."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.scrape.exposition import encode_openmetrics, encode_text
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError
from collectors.registry import COLLECTORS
from tests.examples import examples

CPU, THERMAL = "sys/devices/system/cpu", "sys/class/thermal"
NODE, RESCTRL, EVENT = "sys/devices/system/node", "sys/fs/resctrl", "llc_occupancy"
FILES: Mapping[str, tuple[str, ...]] = {
    "bcache": tuple(
        f"sys/fs/bcache/a-b/{file}"
        for file in ("congested", "bdev0/writeback_rate_debug", "bdev0/dirty_data", "cache0/written")
    ),
    "bcachefs": tuple(
        f"sys/fs/bcachefs/a-b/{file}"
        for file in ("btree_cache_size", "compression_stats", "errors", "counters/fsync", "dev-0/io_done", "dev-0/io_errors")
    ),
    "bonding": ("sys/class/net/bonding_masters", "sys/class/net/bond0/bonding/slaves"),
    "btrfs": tuple(
        f"sys/fs/btrfs/a-b/{file}"
        for file in ("label", "commit_stats", "devices/sda/size", "allocation/data/bytes_reserved", "allocation/data/raid5/used_bytes")
    ),
    "cpu": (
        *("proc/stat", "proc/cpuinfo", f"{CPU}/online", f"{CPU}/isolated", f"{CPU}/cpu0/online"),
        *(f"{CPU}/cpu0/topology/{file}" for file in ("core_id", "physical_package_id")),
        f"{CPU}/cpu0/thermal_throttle/core_throttle_count",
    ),
    "cpu_throttle": (
        *(f"{CPU}/cpu0/topology/{file}" for file in ("core_id", "physical_package_id")),
        *(f"{CPU}/cpu0/thermal_throttle/{level}_throttle_total_time_ms" for level in ("core", "package")),
    ),
    "cpu_vulnerabilities": (f"{CPU}/vulnerabilities/mds", f"{CPU}/vulnerabilities/l1tf"),
    "cpufreq": (
        f"{CPU}/offline",
        *(f"{CPU}/cpu0/cpufreq/scaling_{file}" for file in ("governor", "available_governors")),
        *(f"{CPU}/cpu0/cpufreq/{file}" for file in ("scaling_cur_freq", "cpuinfo_max_freq")),
    ),
    "dmmultipath": tuple(
        f"sys/block/{file}" for file in ("dm-0/dm/uuid", "dm-0/dm/name", "dm-0/size", "dm-0/slaves/sda/dev", "sda/device/state")
    ),
    "fibrechannel": tuple(
        f"sys/class/fc_host/host0/{file}" for file in ("port_name", "symbolic_name", "statistics/rx_frames")
    ),
    "dmi": tuple(f"sys/class/dmi/id/{file}" for file in ("sys_vendor", "product_name")),
    "edac": tuple(
        f"sys/devices/system/edac/mc/mc0/{file}"
        for file in ("ce_count", "csrow0/ch0_ce_count", "csrow0/ch0_dimm_label", "dimm0/dimm_label", "dimm0/dimm_ce_count")
    ),
    "ext4": tuple(
        f"sys/fs/ext4/sda1/{file}" for file in ("errors_count", "warning_count", "first_error_time", "last_error_time")
    ),
    "ipvs": ("proc/net/ip_vs", "proc/net/ip_vs_stats"),
    "nfs": ("proc/net/rpc/nfs",),
    "nfsd": ("proc/net/rpc/nfsd",),
    "hugepages": tuple(
        f"{place}/hugepages/hugepages-2048kB/{file}_hugepages"
        for place in ("sys/kernel/mm", f"{NODE}/node0")
        for file in ("nr", "free", "resv", "surplus", "nr_overcommit")
    ),
    "hwmon": tuple(
        f"sys/class/hwmon/hwmon0/{file}"
        for file in ("name", "temp1_input", "temp1_label", "freq1_input", "freq1_label", "vrm", "beep_enable")
    ),
    "kernel_events": tuple(f"sys/kernel/{event}_count" for event in ("oops", "warn", "rcu_stall")),
    "kernel_hung": ("proc/sys/kernel/hung_task_detect_count",),
    "machine_check": ("proc/interrupts",),
    "mdadm": ("proc/mdstat", *(f"sys/block/md0/md/{file}" for file in ("level", "raid_disks", "degraded"))),
    "memory_failure": tuple(f"{NODE}/node0/memory_failure/{file}" for file in ("total", "failed")),
    "numa": tuple(f"{NODE}/node{node}/{file}" for node in (0, 1) for file in ("distance", "meminfo")),
    "nvme": tuple(
        f"sys/class/nvme/nvme0/{file}"
        for file in ("model", "state", "nvme0n1/size", "nvme0n1/nuse", "nvme0n1/ana_state", "nvme0n1/queue/logical_block_size")
    ),
    "pcie_aer": tuple(
        f"sys/bus/pci/devices/0000:00:00.0/{file}"
        for file in ("aer_dev_correctable", "aer_dev_nonfatal", "aer_rootport_total_err_cor")
    ),
    "pcidevice": tuple(
        f"sys/bus/pci/devices/0000:00:00.0/{file}"
        for file in ("class", "vendor", "max_link_speed", "max_link_width", "numa_node", "power_state")
    ),
    "powersupplyclass": tuple(
        f"sys/class/power_supply/BAT0/{file}" for file in ("capacity", "temp", "voltage_now", "model_name")
    ),
    "rapl": tuple(
        f"sys/class/powercap/intel-rapl:{zone}/{file}" for zone in (0, 1) for file in ("name", "energy_uj")
    ),
    "resctrl": (
        *(f"{RESCTRL}/info/L3_MON/{file}" for file in ("mon_features", "num_rmids")),
        *(f"{RESCTRL}/{group}schemata" for group in ("", "a/")),
        *(f"{RESCTRL}/{group}mon_data/mon_L3_00/{EVENT}" for group in ("", "a/", "mon_groups/b/")),
    ),
    "drbd": ("proc/drbd",),
    "drm": tuple(f"sys/class/drm/card0/device/{file}" for file in ("uevent", "gpu_busy_percent", "unique_id")),
    "lnstat": ("proc/net/stat/arp_cache",),
    "mountstats": ("proc/1/mountstats", "proc/1/mountinfo"),
    "nvmesubsystem": tuple(
        f"sys/class/nvme-subsystem/nvme-subsys0/{file}" for file in ("subsysnqn", "nvme0/state", "nvme0/transport")
    ),
    "runit": ("etc/service/a/supervise/status",),
    "swap": ("proc/swaps",),
    "sysctl": ("proc/sys/vm/swappiness",),
    "tcpstat": ("proc/net/tcp", "proc/net/tcp6"),
    "xfrm": ("proc/net/xfrm_stat",),
    "selinux": ("sys/fs/selinux/enforce", "etc/selinux/config"),
    "tapestats": tuple(f"sys/class/scsi_tape/st0/stats/{file}" for file in ("read_cnt", "io_ns")),
    "xfs": ("sys/fs/xfs/sda1/stats/stats",),
    "zfs": tuple(f"proc/spl/kstat/zfs/{file}" for file in ("arcstats", "tank/io", "tank/state", "tank/objset-1")),
    "thermal_zone": tuple(f"{THERMAL}/thermal_zone0/{file}" for file in ("type", "temp"))
    + tuple(f"{THERMAL}/cooling_device0/{file}" for file in ("type", "cur_state", "max_state")),
    "watchdog": tuple(f"sys/class/watchdog/watchdog0/{file}" for file in ("timeout", "identity")),
}  # fmt: skip
OPTIONS: Mapping[str, Mapping[str, object]] = {
    "cpu": {"cpu_info": True, "cpu_flags_include": "."},
    "resctrl": {"resctrl_groups": True},
    "sysctl": {"sysctl_include": ("vm.swappiness",), "sysctl_include_info": ("vm.swappiness",)},
}
PIECES = st.sampled_from(
    [b"0", b"12", b"-1", b"9" * 30, b"\n", b" ", b":", b",", b"-", b"package-", b"dram", b"raid1", b"\0", b"\xff", b"\xc3\xa9",
     b"\xe2\x80\xa8", b"cpu0 1 2 3 4", b"processor\t: 0\n", b"md0 : active raid1 sda[0]\n", b" 12 blocks [2/2] [UU]\n",
     b"resync", b"=", b"(1/2)", b"Mitigation: ", b"8.0 GT/s PCIe", b"0x10", b"1_0", b"NaN", b"inf", b"1e999", b"\xd9\xa1",
     b"RxErr 1\n", b"TOTAL_ERR_COR 2\n", b"L3:0=f\n", b"MB:0=20;1=5\n", b"llc_occupancy\n", b"mbm_total_bytes\n", b"Unavailable",
     b"Node 0 MemFree: 8 kB\n", b"10 21\n", b"  CPU0 CPU1\n", b"name type data\n", b"hits 4 1\n", b"net 1 2 3 4\n", b"TCP  0A600001:01BB rr\n", b"mpath-", b"device n:/v mounted on /m with fstype nfs\n", b"xprt: tcp 1 2\n", b" 1: cs:Connected ns:1\n", b"rw 1 2\n", b"1.5k", b"MCE: 1 2 Machine check exceptions\n"]
)  # fmt: skip
CONTENT = st.one_of(st.lists(PIECES, max_size=8).map(b"".join), st.binary(max_size=60))


@pytest.mark.parametrize("name", FILES)
@settings(
    max_examples=examples(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_only_collector_errors_are_raised(name: str, tmp_path: Path, data: st.DataObject) -> None:
    for file in FILES[name]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(data.draw(CONTENT, file))
    host = Host(procfs=tmp_path / "proc", sysfs=tmp_path / "sys", rootfs=tmp_path)
    entry = COLLECTORS[name]
    options = entry.options(**OPTIONS.get(name, {}))
    with contextlib.suppress(CollectorError):
        families = tuple(entry.build(host, options).collect())
        encode_text(families)
        encode_openmetrics(families)
        series = [sample[:2] for family in families for sample in family.samples]
        assert len(series) == len(set(series))
