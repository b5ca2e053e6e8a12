"""The registry of collectors: each name is a module, a flag --collector.<name> and a value of the label `collector`."""

from collections.abc import Mapping
from typing import Any

from collectors import (
    arp,
    conntrack,
    cpu,
    cpu_throttle,
    cpufreq,
    diskstats,
    dmi,
    edac,
    entropy,
    ethtool,
    filefd,
    filesystem,
    gpu,
    hugepages,
    hwmon,
    infiniband,
    interrupts,
    kernel_events,
    kernel_hung,
    loadavg,
    machine_check,
    mdadm,
    meminfo,
    memory_failure,
    netclass,
    netdev,
    netstat,
    numa,
    nvme,
    os,
    pcidevice,
    pcie_aer,
    powersupplyclass,
    pressure,
    qdisc,
    rapl,
    rasdaemon,
    resctrl,
    schedstat,
    slabinfo,
    sockstat,
    softnet,
    stat,
    synthetic,
    textfile,
    thermal_zone,
    time,
    timex,
    udp_queues,
    uname,
    vmstat,
    watchdog,
)
from collectors.arp import Arp
from collectors.conntrack import Conntrack
from collectors.cpu import Cpu
from collectors.cpu_throttle import CpuThrottle
from collectors.cpufreq import CpuFreq
from collectors.diskstats import DiskStats
from collectors.dmi import Dmi
from collectors.edac import Edac
from collectors.entropy import Entropy
from collectors.ethtool import Ethtool
from collectors.filefd import FileFd
from collectors.filesystem import Filesystem
from collectors.gpu import Gpu
from collectors.hugepages import HugePages
from collectors.hwmon import HwMon, sensors
from collectors.infiniband import InfiniBand
from collectors.interface.entry import Entry, OnDemand
from collectors.interface.host import Host
from collectors.interface.sample import Collector
from collectors.interrupts import Interrupts
from collectors.kernel_events import KernelEvents
from collectors.kernel_hung import KernelHung
from collectors.loadavg import LoadAvg
from collectors.machine_check import MachineCheck
from collectors.mdadm import MdAdm
from collectors.meminfo import MemInfo
from collectors.memory_failure import MemoryFailure
from collectors.netclass import NetClass
from collectors.netdev import NetDev
from collectors.netstat import NetStat
from collectors.numa import Numa
from collectors.nvme import Nvme
from collectors.os import Os
from collectors.pcidevice import PciDevice
from collectors.pcie_aer import PcieAer
from collectors.powersupplyclass import PowerSupplyClass
from collectors.pressure import Pressure
from collectors.qdisc import QueueDisciplines
from collectors.rapl import Rapl
from collectors.rasdaemon import Rasdaemon
from collectors.registry.on_demand import ON_DEMAND
from collectors.resctrl import Resctrl
from collectors.schedstat import SchedStat
from collectors.slabinfo import SlabInfo
from collectors.sockstat import SockStat
from collectors.softnet import Softnet
from collectors.stat import Stat
from collectors.synthetic import Synthetic
from collectors.textfile import TextFile
from collectors.thermal_zone import ThermalZone
from collectors.time import Time
from collectors.timex import Timex
from collectors.udp_queues import UdpQueues
from collectors.uname import Uname
from collectors.vmstat import VmStat
from collectors.watchdog import Watchdog

_IMPORTED: Mapping[str, Entry] = {
    "arp": Entry(Arp, arp.METRICS, "the ARP table's size by device", options=arp.Options),
    "conntrack": Entry(
        lambda host, _: Conntrack(host), conntrack.METRICS, "the connection tracking table"
    ),
    "cpu": Entry(
        Cpu, cpu.METRICS, "CPU time by mode, throttling, what is online", options=cpu.Options
    ),
    "cpu_throttle": Entry(
        lambda host, _: CpuThrottle(host),
        cpu_throttle.METRICS,
        "how long CPUs were throttled for their heat",
    ),
    "cpufreq": Entry(
        lambda host, _: CpuFreq(host),
        cpufreq.METRICS,
        "CPU frequencies and their governor",
    ),
    "diskstats": Entry(
        DiskStats,
        diskstats.METRICS,
        "disk I/O, and what udev knows of the disks",
        options=diskstats.Options,
    ),
    "dmi": Entry(
        lambda host, _: Dmi(host),
        dmi.METRICS,
        "vendor, model and serial numbers of the machine",
        needs="root for serial numbers",
    ),
    "edac": Entry(
        lambda host, _: Edac(host),
        edac.METRICS,
        "memory errors that ECC found, also by DIMM",
    ),
    "entropy": Entry(lambda host, _: Entropy(host), entropy.METRICS, "available entropy"),
    "ethtool": Entry(
        Ethtool,
        ethtool.METRICS,
        "network drivers: link modes and their own statistics",
        on=False,
        needs="hostNetwork",
        options=ethtool.Options,
    ),
    "filefd": Entry(lambda host, _: FileFd(host), filefd.METRICS, "file descriptors in use"),
    "filesystem": Entry(
        Filesystem,
        filesystem.METRICS,
        "size and free space of mounted file systems",
        options=filesystem.Options,
        slow=True,
    ),
    "gpu": Entry(
        lambda host, _: Gpu(host),
        gpu.METRICS,
        "NVIDIA GPUs",
        needs="extra `gpu`",
    ),
    "hugepages": Entry(
        lambda host, _: HugePages(host),
        hugepages.METRICS,
        "huge pages by size and NUMA node",
    ),
    "hwmon": Entry(
        HwMon,
        sensors.METRICS,
        "temperatures, fans, voltages and other sensors",
        options=hwmon.Options,
    ),
    "infiniband": Entry(
        InfiniBand,
        infiniband.METRICS,
        "InfiniBand and RoCE ports",
        options=infiniband.Options,
    ),
    "interrupts": Entry(
        Interrupts,
        interrupts.METRICS,
        "interrupts by line and CPU",
        on=False,
        options=interrupts.Options,
    ),
    "kernel_events": Entry(
        lambda host, _: KernelEvents(host),
        kernel_events.METRICS,
        "oopses, warnings, lockups and stalls of the kernel",
    ),
    "kernel_hung": Entry(
        lambda host, _: KernelHung(host),
        kernel_hung.METRICS,
        "tasks that the kernel found hung",
    ),
    "loadavg": Entry(lambda host, _: LoadAvg(host), loadavg.METRICS, "load averages"),
    "machine_check": Entry(
        lambda host, _: MachineCheck(host),
        machine_check.METRICS,
        "machine checks and their interrupts",
    ),
    "mdadm": Entry(
        lambda host, _: MdAdm(host),
        mdadm.METRICS,
        "software RAID arrays",
    ),
    "meminfo": Entry(lambda host, _: MemInfo(host), meminfo.METRICS, "memory statistics"),
    "memory_failure": Entry(
        lambda host, _: MemoryFailure(host),
        memory_failure.METRICS,
        "pages lost to memory errors",
    ),
    "netclass": Entry(
        NetClass,
        netclass.METRICS,
        "state, speed and properties of network devices",
        options=netclass.Options,
        slow=True,
    ),
    "netdev": Entry(
        NetDev, netdev.METRICS, "traffic and errors of network devices", options=netdev.Options
    ),
    "netstat": Entry(
        NetStat, netstat.METRICS, "statistics of network protocols", options=netstat.Options
    ),
    "numa": Entry(
        lambda host, _: Numa(host),
        numa.METRICS,
        "distances and free memory of NUMA nodes",
    ),
    "nvme": Entry(
        lambda host, _: Nvme(host),
        nvme.METRICS,
        "NVMe controllers and namespaces",
    ),
    "os": Entry(lambda host, _: Os(host), os.METRICS, "the distribution and its version"),
    "pcidevice": Entry(
        PciDevice,
        pcidevice.METRICS,
        "PCI devices and their links",
        on=False,
        options=pcidevice.Options,
    ),
    "pcie_aer": Entry(
        lambda host, _: PcieAer(host),
        pcie_aer.METRICS,
        "PCI Express errors of devices and root ports",
    ),
    "powersupplyclass": Entry(
        PowerSupplyClass,
        powersupplyclass.METRICS,
        "batteries and power supplies",
        options=powersupplyclass.Options,
    ),
    "pressure": Entry(
        lambda host, _: Pressure(host), pressure.METRICS, "pressure stall information"
    ),
    "qdisc": Entry(
        QueueDisciplines,
        qdisc.METRICS,
        "queueing disciplines",
        on=False,
        options=qdisc.Options,
        needs="hostNetwork",
    ),
    "rapl": Entry(
        Rapl,
        rapl.METRICS,
        "energy used by packages, cores and memory",
        needs="root",
        options=rapl.Options,
    ),
    "rasdaemon": Entry(
        Rasdaemon,
        rasdaemon.METRICS,
        "hardware errors that rasdaemon recorded",
        options=rasdaemon.Options,
    ),
    "resctrl": Entry(
        Resctrl,
        resctrl.METRICS,
        "cache occupancy and memory bandwidth (RDT), by resctrl",
        needs="mounted resctrl",
        options=resctrl.Options,
    ),
    "schedstat": Entry(
        lambda host, _: SchedStat(host),
        schedstat.METRICS,
        "time that CPUs ran and processes waited",
    ),
    "slabinfo": Entry(
        SlabInfo,
        slabinfo.METRICS,
        "the kernel's slabs",
        on=False,
        needs="root",
        options=slabinfo.Options,
    ),
    "sockstat": Entry(lambda host, _: SockStat(host), sockstat.METRICS, "sockets by protocol"),
    "softnet": Entry(
        lambda host, _: Softnet(host), softnet.METRICS, "packets as the CPUs took them in"
    ),
    "stat": Entry(
        Stat, stat.METRICS, "interrupts, context switches, forks, boot time", options=stat.Options
    ),
    "thermal_zone": Entry(
        lambda host, _: ThermalZone(host),
        thermal_zone.METRICS,
        "thermal zones and cooling devices",
    ),
    "time": Entry(lambda host, _: Time(host), time.METRICS, "system time, time zone, clock source"),
    "timex": Entry(lambda _, __: Timex(), timex.METRICS, "how the clock is disciplined"),
    "udp_queues": Entry(
        lambda host, _: UdpQueues(host), udp_queues.METRICS, "memory in the queues of UDP sockets"
    ),
    "uname": Entry(lambda host, _: Uname(host), uname.METRICS, "kernel, architecture, host name"),
    "vmstat": Entry(VmStat, vmstat.METRICS, "virtual memory statistics", options=vmstat.Options),
    "watchdog": Entry(
        lambda host, _: Watchdog(host),
        watchdog.METRICS,
        "watchdog timers",
    ),
}
_OPEN_ENDED: Mapping[str, Entry] = {
    "textfile": Entry(
        lambda _, options: TextFile(options),
        textfile.METRICS,
        "*.prom files",
        options=textfile.Options,
        open_ended=True,
    ),
    "synthetic": Entry(
        Synthetic,
        synthetic.METRICS,
        "synthetic values, for demos and tests",
        on=False,
        options=synthetic.Options,
        open_ended=True,
    ),
}


_BY_NAME: Mapping[str, Entry | OnDemand] = {**_IMPORTED, **ON_DEMAND}

# In this order they run. If two export the same series the first one's is kept, so open-ended collectors come last.
COLLECTORS: Mapping[str, Entry | OnDemand] = {
    **{name: _BY_NAME[name] for name in sorted(_BY_NAME)},
    **_OPEN_ENDED,
}


def build(host: Host, chosen: Mapping[str, Any]) -> dict[str, Collector]:
    """Return the enabled collectors by name, in the table's order; `chosen` has the options of each."""
    return {
        name: entry.build(host, chosen[name])
        for name, entry in COLLECTORS.items()
        if name in chosen
    }
