"""Collectors that are imported when they are enabled and their source exists.

That is all that are opt-in, and those whose source few machines have.
"""

from collections.abc import Mapping

from collectors.base.entry import OnDemand

_ENTRIES = (
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
        module="processes",
        name="Processes",
        about="processes and threads by state",
        prefixes=("node_processes_",),
    ),
    OnDemand(
        module="softirqs",
        name="SoftIrqs",
        about="softirqs by kind and CPU",
        prefixes=("node_softirqs_",),
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
