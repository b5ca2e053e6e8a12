"""Parsers yield families of the catalog or raise CollectorError for any bytes."""

import contextlib
import re
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import (
    arp,
    buddyinfo,
    cgroups,
    conntrack,
    cpu,
    cpu_vulnerabilities,
    diskstats,
    entropy,
    ethtool,
    filefd,
    filesystem,
    hugepages,
    infiniband,
    interrupts,
    kernel_hung,
    ksmd,
    loadavg,
    machine_check,
    mdadm,
    meminfo,
    meminfo_numa,
    netclass,
    netdev,
    netstat,
    numa,
    pcie_aer,
    pressure,
    processes,
    schedstat,
    slabinfo,
    sockstat,
    softirqs,
    softnet,
    stat,
    udp_queues,
    vmstat,
    zoneinfo,
)
from collectors import os as os_release
from collectors.cpu import cpuinfo
from collectors.diskstats import diskinfo, udev
from collectors.interface.sample import CollectorError
from collectors.pcidevice import formats as pciids
from collectors.resctrl import llcsizes, resctrltree
from collectors.resctrl.formats import resctrlsums
from collectors.shared import mounts, netroot
from collectors.shared.formats import cpulist
from collectors.shared.formats.patterns import DeviceFilter
from collectors.textfile.formats import promtext

EVERY_FIELD = re.compile("")
EVERY_DEVICE = DeviceFilter("", "")
EVERY_STATISTIC = netstat.Picker("")
PARSERS: dict[str, Callable[[str], Iterable[object]]] = {
    "arp": lambda text: arp.parse(f"header\n{text}"),
    "conntrack": conntrack.parse,
    "conntrack rows": lambda text: conntrack.parse(f"entries found\n{text}"),
    "ethtool": lambda text: ethtool.metric_name(ethtool.sanitized(text)),
    "infiniband": lambda text: [infiniband.parse("counters/port_rcv_data", text)],
    "infiniband rate": lambda text: [infiniband.parse("rate", text)],
    "infiniband state": lambda text: [infiniband.parse("state", text)],
    "netclass": lambda text: netclass.families({"eth0": {"flags": text, "speed": text}}),
    "netdev": lambda text: netdev.parse(f"header\nheader\n{text}"),
    "netroot": lambda text: [netroot.nested_pids(text)],
    "netstat": lambda text: netstat.families(netstat.parse_pairs(text, EVERY_STATISTIC)),
    "netstat numbers": lambda text: netstat.families(
        netstat.parse_pairs(f"Tcp: A B\nTcp: {text}", EVERY_STATISTIC)
    ),
    "snmp6": lambda text: netstat.families(netstat.parse_lines(text, EVERY_STATISTIC)),
    "sockstat": lambda text: sockstat.parse(text, page_size=4096),
    "sockstat numbers": lambda text: sockstat.parse(f"TCP: inuse {text}", page_size=4096),
    "softnet": softnet.parse,
    "udp_queues": lambda text: udp_queues.parse(f"header\n{text}"),
    "buddyinfo": buddyinfo.parse,
    "cgroups": cgroups.parse,
    "diskinfo": lambda text: diskinfo.families(
        [diskinfo.Disk("sda", "8", "0", udev.parse(text), rotational=False)]
    ),
    "diskstats": lambda text: diskstats.families(diskstats.parse(text, EVERY_DEVICE.ignores)),
    "entropy": lambda text: [entropy.parse("poolsize", text)],
    "filefd": filefd.parse,
    "filesystem": lambda text: filesystem.families((m, "error") for m in mounts.parse(text)),
    "interrupts": lambda text: interrupts.parse(text, EVERY_DEVICE, zeros=True),
    "ksmd": lambda text: [ksmd.parse("general_profit", text)],
    "meminfo_numa": lambda text: meminfo_numa.families([("0", meminfo_numa.parse_meminfo(text))]),
    "numastat": lambda text: meminfo_numa.families([("0", meminfo_numa.parse_numastat(text))]),
    "os": lambda text: os_release.families(os_release.parse(text)),
    "processes": processes.parse_stat,
    "processes limit": lambda text: [processes.parse_limit(text)],
    "schedstat": schedstat.parse,
    "slabinfo": lambda text: slabinfo.parse(f"{slabinfo.HEAD}1\n{text}", EVERY_DEVICE),
    "softirqs": softirqs.parse,
    "stat": lambda text: stat.parse(text, softirqs=True),
    "zoneinfo": zoneinfo.parse,
    "cpu": cpu.parse_stat,
    "cpu list": cpulist.parse_cpu_list,
    "cpu seconds": lambda text: list(cpu.seconds(cpu.parse_stat(text), guest=True)),
    "cpuinfo": lambda text: [cpuinfo.info(cpuinfo.blocks(text))],
    "cpuinfo frequency": lambda text: list(cpuinfo.frequency(cpuinfo.blocks(text))),
    "kernel_hung": kernel_hung.parse,
    "mdadm": lambda text: mdadm.families(mdadm.parse(text)),
    "pciids": lambda text: [pciids.parse(text.splitlines(), {"1"})],
    "cpu_vulnerabilities": cpu_vulnerabilities.parse,
    "loadavg": loadavg.parse,
    "meminfo": meminfo.parse,
    "machine_check": machine_check.parse,
    "numa distances": lambda text: numa.parse_distances(text, 2),
    "numa meminfo": numa.parse_meminfo,
    "pcie_aer": pcie_aer.parse,
    "hugepages": lambda text: [hugepages.page_size(text)],
    "pressure": lambda text: pressure.parse("memory", text),
    "promtext": lambda text: promtext.parse(text.encode("utf-8", "surrogateescape")),
    "llcsizes": lambda text: [llcsizes.parse_size(text)],
    "resctrl reading": lambda text: [resctrlsums.parse_reading(text)],
    "resctrl schemata": resctrltree.parse_schemata,
    "vmstat": lambda text: vmstat.parse(text, EVERY_FIELD),
}
# Random bytes rarely get past the first character; these parts do.
PIECES = st.sampled_from(
    [
        "cpu0", "cpu", "processor", "cpu MHz", "MemTotal", "(anon)", "kB", "some", "full", " avg10=0.00", " avg60=0.00",
        " avg300=0.00", " total=", "# HELP ", "# TYPE ", "a", "a_sum", "a_bucket", "a_count", "histogram", "summary",
        "counter", "{", "}", '"', "\\", "=", 'le="1"', 'quantile="0.5"', ",", ":", " ", "\t", "\n", "\r", "\0", "1", "12",
        "0.5", "1e9", "-1", "NaN", "+Inf", "1_0", "0x10", "9" * 30, "é", "CPU0", "MCE:", "Node 0 MemFree:", "\u2028", "-",
        "Node 0, zone DMA", "\nNode 0, zone DMA\n", "protection: (", " : tunables ", "E:ID_ATA=1\n", "E:ID_ATA_WRITE_CACHE=",
        "softirq", "ctxt ", "HI:", "VERSION_ID=", "SUPPORT_END=", "2026-02-30", "0:21", " - ", "ro", "\\040", ") S ",
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", "numa_hit", "intr", "\nmd0 : active raid1 sda[0](F)\n", " 12 blocks", "[2/1] [U_]", "resync = (1/2)",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES, max_size=40).map("".join),
    st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(max_size=100).filter(lambda text: text.isprintable()),
)


@pytest.mark.parametrize("name", PARSERS)
@given(text=TEXTS)
def test_only_collector_errors_are_raised(name: str, text: str) -> None:
    with contextlib.suppress(CollectorError):
        list(PARSERS[name](text))
