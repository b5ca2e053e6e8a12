"""SELinux: whether it is enabled, and its current and configured mode, from selinuxfs and /etc/selinux/config."""

from collections.abc import Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_CONFIG = "etc/selinux/config"
METRICS = Table(
    Metric(
        "node_selinux_enabled",
        "gauge",
        "SELinux is enabled, 1 is true, 0 is false",
        "<sysfs>/fs/selinux/enforce",
    ),
    Metric(
        "node_selinux_current_mode",
        "gauge",
        "Current SELinux enforcement mode",
        "<sysfs>/fs/selinux/enforce",
    ),
    Metric(
        "node_selinux_config_mode",
        "gauge",
        "Configured SELinux enforcement mode",
        f"<rootfs>/{_CONFIG}",
    ),
)
_MODES = {"enforcing": 1.0, "permissive": 0.0, "disabled": -1.0}


def parse_config(text: str) -> float | None:
    """Return the mode in SELINUX=: 1 enforcing, 0 permissive, -1 disabled; None if there is none."""
    mode = None
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and key.strip() == "SELINUX":
            mode = _MODES.get(value.strip().strip("\"'").lower(), mode)
    return mode


class Selinux:
    """The `selinux` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._enforce = f"{machine.sysfs}/fs/selinux/enforce"
        self._config = machine.rootfs / _CONFIG

    def collect(self) -> Iterator[Family]:
        """Read the sources now. selinuxfs is mounted only while SELinux is enabled."""
        current = sysfs.number(self._enforce)
        yield METRICS.single("node_selinux_enabled", float(current is not None))
        if current is None:
            return
        yield METRICS.single("node_selinux_current_mode", float(current))
        text = host.read_guarded(self._config, "node_selinux_config_mode")
        if text is not None and (mode := parse_config(text)) is not None:
            yield METRICS.single("node_selinux_config_mode", mode)


ENTRY = Entry(
    build=lambda host, _: Selinux(host),
    metrics=METRICS,
    about="whether SELinux is enabled, and its mode",
)
