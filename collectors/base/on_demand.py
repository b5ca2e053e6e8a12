"""Collectors that are imported when they are enabled and their source exists.

That is all that are opt-in, and those whose source few machines have.
"""

from collections.abc import Mapping

from collectors.base import options
from collectors.base.entry import OnDemand

_ENTRIES = (
    OnDemand(
        module="bcache",
        name="Bcache",
        about="block caches (bcache)",
        prefixes=("node_bcache_",),
        source="<sysfs>/fs/bcache",
        on=True,
        options=options.BcacheOptions,
    ),
    OnDemand(
        module="bcachefs",
        name="Bcachefs",
        about="bcachefs file systems and their devices",
        prefixes=("node_bcachefs_",),
        source="<sysfs>/fs/bcachefs",
        on=True,
    ),
    OnDemand(
        module="bonding",
        name="Bonding",
        about="slaves of bonded network devices",
        prefixes=("node_bonding_",),
        source="<sysfs>/class/net/bonding_masters",
        on=True,
    ),
    OnDemand(
        module="btrfs",
        name="Btrfs",
        about="Btrfs file systems: space, commits, device errors",
        prefixes=("node_btrfs_",),
        source="<sysfs>/fs/btrfs",
        on=True,
    ),
    OnDemand(
        module="buddyinfo",
        name="BuddyInfo",
        about="free memory blocks by size",
        prefixes=("node_buddyinfo_",),
    ),
    OnDemand(
        module="cgroups",
        name="Cgroups",
        about="the number of cgroups by controller",
        prefixes=("node_cgroups_",),
    ),
    OnDemand(
        module="cpu_vulnerabilities",
        name="CpuVulnerabilities",
        about="known vulnerabilities of the CPU, and what is done about them",
        prefixes=("node_cpu_vulnerabilities_",),
    ),
    OnDemand(
        module="dmmultipath",
        name="DmMultipath",
        about="multipath devices of the device mapper",
        prefixes=("node_dmmultipath_",),
        source="<sysfs>/block",
        on=True,
    ),
    OnDemand(
        module="fibrechannel",
        name="FibreChannel",
        about="Fibre Channel ports",
        prefixes=("node_fibrechannel_",),
        source="<sysfs>/class/fc_host",
        on=True,
    ),
    OnDemand(
        module="ipvs",
        name="Ipvs",
        about="virtual servers (IPVS) and their backends",
        prefixes=("node_ipvs_",),
        source="<net>/ip_vs_stats",
        on=True,
        options=options.IpvsOptions,
        needs="root",
    ),
    OnDemand(
        module="ksmd",
        name="Ksmd",
        about="kernel same-page merging",
        prefixes=("node_ksmd_",),
    ),
    OnDemand(
        module="meminfo_numa",
        name="MemInfoNuma",
        about="memory statistics of each NUMA node",
        prefixes=("node_memory_numa_",),
    ),
    OnDemand(
        module="nfs",
        name="Nfs",
        about="NFS client: calls by procedure",
        prefixes=("node_nfs_",),
        source="<net>/rpc/nfs",
        on=True,
    ),
    OnDemand(
        module="nfsd",
        name="Nfsd",
        about="NFS server: calls by procedure, I/O, caches",
        prefixes=("node_nfsd_",),
        source="<net>/rpc/nfsd",
        on=True,
    ),
    OnDemand(
        module="processes",
        name="Processes",
        about="processes and threads by state",
        prefixes=("node_processes_",),
    ),
    OnDemand(
        module="selinux",
        name="Selinux",
        about="whether SELinux is enabled, and its mode",
        prefixes=("node_selinux_",),
        on=True,
    ),
    OnDemand(
        module="softirqs",
        name="SoftIrqs",
        about="softirqs by kind and CPU",
        prefixes=("node_softirqs_",),
    ),
    OnDemand(
        module="tapestats",
        name="Tapestats",
        about="I/O of tape drives",
        prefixes=("node_tape_",),
        source="<sysfs>/class/scsi_tape",
        on=True,
        options=options.TapestatsOptions,
    ),
    OnDemand(
        module="xfs",
        name="Xfs",
        about="operations of XFS file systems",
        prefixes=("node_xfs_",),
        source="<sysfs>/fs/xfs",
        on=True,
    ),
    OnDemand(
        module="zfs",
        name="Zfs",
        about="ZFS: caches, transactions and pools",
        prefixes=("node_zfs_",),
        source="<procfs>/spl/kstat/zfs",
        on=True,
    ),
    OnDemand(
        module="zoneinfo",
        name="ZoneInfo",
        about="pages of each memory zone",
        prefixes=("node_zoneinfo_",),
    ),
)
ON_DEMAND: Mapping[str, OnDemand] = {entry.module: entry for entry in _ENTRIES}
"""Entries by name."""
