"""Collectors and flags that node_exporter has or had and this agent does not have. The agent accepts all of them."""

from collections.abc import Mapping

_REMOVED = "removed from node_exporter in {}"
_OTHER_SYSTEM = "{} only"

UNAVAILABLE: Mapping[str, str] = {
    "attributes": _REMOVED.format("0.9"),
    "boottime": _OTHER_SYSTEM.format("BSD, macOS and Solaris"),
    "devstat": _OTHER_SYSTEM.format("BSD"),
    "exec": _OTHER_SYSTEM.format("BSD"),
    "gmond": _REMOVED.format("0.16"),
    "lastlogin": _REMOVED.format("0.12"),
    "megacli": _REMOVED.format("0.16"),
    "netinterface": _OTHER_SYSTEM.format("AIX"),
    "netisr": _OTHER_SYSTEM.format("FreeBSD"),
    "partition": _OTHER_SYSTEM.format("AIX"),
    "thermal": _OTHER_SYSTEM.format("macOS"),
}
"""Collectors of node_exporter by name, with the reason why this agent does not have them."""

RENAMED: Mapping[str, str] = {
    "collector.diskstats.ignored-devices": "collector.diskstats.device-exclude",
    "collector.ethtool.ignored-devices": "collector.ethtool.device-exclude",
    "collector.filesystem.ignored-fs-types": "collector.filesystem.fs-types-exclude",
    "collector.filesystem.ignored-mount-points": "collector.filesystem.mount-points-exclude",
    "collector.ipvs.procfs": "path.procfs",
    "collector.netdev.device-blacklist": "collector.netdev.device-exclude",
    "collector.netdev.device-whitelist": "collector.netdev.device-include",
    "collector.netdev.ignored-devices": "collector.netdev.device-exclude",
    "collector.procfs": "path.procfs",
    "collector.qdisk.device-exclude": "collector.qdisc.device-exclude",
    "collector.qdisk.device-include": "collector.qdisc.device-include",
    "collector.runit.servicecdir": "collector.runit.servicedir",
    "collector.sysfs": "path.sysfs",
    "collector.systemd.unit-blacklist": "collector.systemd.unit-exclude",
    "collector.systemd.unit-whitelist": "collector.systemd.unit-include",
    "web.config": "web.config.file",
}
"""Former names of flags, with the names of today. They have an effect."""

_SWITCHES = (
    "collector.netclass.netlink",
    "collector.netclass_rtnl",
    "collector.netclass_rtnl.with-stats",
    "collector.systemd.private",
    "collectors.print",
    "web.systemd-socket",
)
IGNORED: Mapping[str, bool] = {
    **dict.fromkeys(_SWITCHES, True),
    **dict.fromkeys(
        (
            "auth.pass",
            "auth.user",
            "collector.ethtool.fixtures",
            "collector.filesystem.stat-workers",
            "collector.megacli.command",
            "collector.netclass_rtnl.ignored-devices",
            "collectors.enabled",
            "debug.memprofile-file",
            "runtime.gomaxprocs",
        ),
        False,
    ),
    **{f"collector.{name}": True for name in UNAVAILABLE},
}
"""Flags without an effect here, and whether each is a switch."""
