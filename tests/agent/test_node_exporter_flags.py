"""Command lines of node_exporter work, whatever its release."""

import pytest

from agent import config, node_exporter
from collectors.registry import COLLECTORS

# All names in node_exporter's releases 0.1 to 1.12.
EVER = [
    "arp",
    "attributes",
    "bcache",
    "bcachefs",
    "bonding",
    "boottime",
    "btrfs",
    "buddyinfo",
    "cgroups",
    "conntrack",
    "cpu",
    "cpu_vulnerabilities",
    "cpufreq",
    "devstat",
    "diskstats",
    "dmi",
    "dmmultipath",
    "drbd",
    "drm",
    "edac",
    "entropy",
    "ethtool",
    "exec",
    "fibrechannel",
    "filefd",
    "filesystem",
    "gmond",
    "hwmon",
    "infiniband",
    "interrupts",
    "ipvs",
    "kernel_hung",
    "ksmd",
    "lastlogin",
    "lnstat",
    "loadavg",
    "logind",
    "mdadm",
    "megacli",
    "meminfo",
    "meminfo_numa",
    "mountstats",
    "netclass",
    "netdev",
    "netinterface",
    "netisr",
    "netstat",
    "network_route",
    "nfs",
    "nfsd",
    "ntp",
    "nvme",
    "nvmesubsystem",
    "os",
    "partition",
    "pcidevice",
    "perf",
    "powersupplyclass",
    "pressure",
    "processes",
    "qdisc",
    "rapl",
    "runit",
    "schedstat",
    "selinux",
    "slabinfo",
    "sockstat",
    "softirqs",
    "softnet",
    "stat",
    "supervisord",
    "swap",
    "sysctl",
    "systemd",
    "tapestats",
    "tcpstat",
    "textfile",
    "thermal",
    "thermal_zone",
    "time",
    "timex",
    "udp_queues",
    "uname",
    "vmstat",
    "watchdog",
    "wifi",
    "xfrm",
    "xfs",
    "zfs",
    "zoneinfo",
]
OTHERS = [
    "collector.arp.device-exclude",
    "collector.arp.device-include",
    "collector.arp.netlink",
    "collector.bcache.priorityStats",
    "collector.cpu.guest",
    "collector.cpu.info",
    "collector.cpu.info.bugs-include",
    "collector.cpu.info.flags-include",
    "collector.diskstats.device-exclude",
    "collector.diskstats.device-include",
    "collector.diskstats.ignored-devices",
    "collector.ethtool.device-exclude",
    "collector.ethtool.device-include",
    "collector.ethtool.metrics-include",
    "collector.filesystem.fs-types-exclude",
    "collector.filesystem.fs-types-include",
    "collector.filesystem.ignored-fs-types",
    "collector.filesystem.ignored-mount-points",
    "collector.filesystem.mount-points-exclude",
    "collector.filesystem.mount-points-include",
    "collector.filesystem.mount-timeout",
    "collector.filesystem.stat-workers",
    "collector.hwmon.chip-exclude",
    "collector.hwmon.chip-include",
    "collector.hwmon.sensor-exclude",
    "collector.hwmon.sensor-include",
    "collector.infiniband.device-exclude",
    "collector.infiniband.device-include",
    "collector.interrupts.include-zeros",
    "collector.interrupts.name-exclude",
    "collector.interrupts.name-include",
    "collector.ipvs.backend-labels",
    "collector.netclass.ignore-invalid-speed",
    "collector.netclass.ignored-devices",
    "collector.netclass.netlink",
    "collector.netclass_rtnl.with-stats",
    "collector.netdev.address-info",
    "collector.netdev.device-blacklist",
    "collector.netdev.device-exclude",
    "collector.netdev.device-include",
    "collector.netdev.device-whitelist",
    "collector.netdev.enable-detailed-metrics",
    "collector.netdev.label-ifalias",
    "collector.netdev.netlink",
    "collector.netstat.fields",
    "collector.ntp.ip-ttl",
    "collector.ntp.local-offset-tolerance",
    "collector.ntp.max-distance",
    "collector.ntp.protocol-version",
    "collector.ntp.server",
    "collector.ntp.server-is-local",
    "collector.ntp.server-port",
    "collector.pcidevice.idsfile",
    "collector.pcidevice.names",
    "collector.perf.cache-profilers",
    "collector.perf.cpus",
    "collector.perf.disable-cache-profilers",
    "collector.perf.disable-hardware-profilers",
    "collector.perf.disable-software-profilers",
    "collector.perf.hardware-profilers",
    "collector.perf.software-profilers",
    "collector.perf.tracepoint",
    "collector.powersupply.ignored-supplies",
    "collector.qdisc.device-exclude",
    "collector.qdisc.device-include",
    "collector.qdisc.fixtures",
    "collector.qdisk.device-exclude",
    "collector.qdisk.device-include",
    "collector.rapl.enable-zone-label",
    "collector.runit.servicedir",
    "collector.slabinfo.slabs-exclude",
    "collector.slabinfo.slabs-include",
    "collector.stat.softirq",
    "collector.supervisord.url",
    "collector.sysctl.include",
    "collector.sysctl.include-info",
    "collector.systemd.enable-restarts-metrics",
    "collector.systemd.enable-start-time-metrics",
    "collector.systemd.enable-task-metrics",
    "collector.systemd.private",
    "collector.systemd.unit-blacklist",
    "collector.systemd.unit-exclude",
    "collector.systemd.unit-include",
    "collector.systemd.unit-whitelist",
    "collector.tapestats.ignored-devices",
    "collector.textfile.directory",
    "collector.vmstat.fields",
    "collector.wifi.fixtures",
    "runtime.gomaxprocs",
    "web.systemd-socket",
]


def parse(*argv: str) -> config.Settings:
    return config.parse(argv, {}, hostname="this-host")


def _known() -> set[str]:
    parser = config.Parser("test", about="")
    config.add_flags(parser)
    return {name for action in parser._actions for name in action.option_strings}


@pytest.mark.parametrize("name", EVER)
def test_collector_that_node_exporter_ever_had_can_be_switched(name: str) -> None:
    for flag in (f"--collector.{name}", f"--no-collector.{name}", f"-collector.{name}"):
        settings = parse(flag)
        available = name in COLLECTORS
        assert list(settings.without_effect) == ([] if available else [flag])
        if available:
            assert (name in settings.collectors) == (not flag.startswith("--no-"))


def test_every_flag_of_node_exporter_is_known() -> None:
    missing = {f"--{flag}" for flag in OTHERS} - _known()
    assert missing == set()


def test_every_collector_is_either_available_or_listed_with_a_reason() -> None:
    assert set(EVER) <= COLLECTORS.keys() | node_exporter.UNAVAILABLE.keys()
    assert not COLLECTORS.keys() & node_exporter.UNAVAILABLE.keys()


def test_former_name_of_a_flag_has_its_effect() -> None:
    settings = parse("--collector.netdev.device-blacklist=^veth", "--collector.sysfs=/host/sys")
    assert settings.collectors["netdev"].netdev_device_exclude == "^veth"
    assert str(settings.host.sysfs) == "/host/sys"
    assert settings.without_effect == ()


def test_flags_without_an_effect_are_named_once() -> None:
    settings = parse("--collector.megacli", "--collector.megacli", "--runtime.gomaxprocs=2")
    assert settings.without_effect == ["--collector.megacli", "--runtime.gomaxprocs"]
