"""XID errors of NVIDIA's driver in the kernel's log, and what NVIDIA's catalogue says to do about each. Pure.

Source of codes and actions: "Xid Errors" and its catalogue, https://docs.nvidia.com/deploy/xid-errors. Codes that are not in the table
are unknown, not fatal: their actions differ by GPU and driver.
"""

import re
from collections.abc import Mapping
from enum import StrEnum


class XidAction(StrEnum):
    """What ends the error."""

    APPLICATION = "application"
    """Nothing on the node: the error is the application's, or ends with it."""
    RESET = "reset"
    """A reset of the GPU."""
    REBOOT = "reboot"
    """A reboot of the node."""
    INVESTIGATE = "investigate"
    """Look at the device: the error alone tells too little."""
    UNKNOWN = "unknown"


ACTIONS: Mapping[int, tuple[XidAction, str]] = {
    13: (XidAction.APPLICATION, "graphics engine exception"),
    31: (XidAction.APPLICATION, "GPU memory page fault"),
    43: (XidAction.APPLICATION, "GPU stopped processing for an application"),
    45: (XidAction.APPLICATION, "preemptive cleanup, after earlier errors"),
    48: (XidAction.RESET, "double-bit ECC error"),
    63: (XidAction.APPLICATION, "memory row remapped or page retired; active after a reset"),
    64: (XidAction.RESET, "memory row not remapped or page not retired"),
    74: (XidAction.INVESTIGATE, "NVLink error"),
    79: (XidAction.REBOOT, "GPU has fallen off the bus"),
    92: (XidAction.INVESTIGATE, "high rate of corrected memory errors"),
    94: (XidAction.APPLICATION, "contained memory error"),
    95: (XidAction.RESET, "uncontained memory error"),
    119: (XidAction.RESET, "GSP does not answer"),
    120: (XidAction.RESET, "GSP error"),
}
"""Code to action and meaning."""
_LINE = re.compile(
    r"NVRM: Xid \(PCI:([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?"
    r"(?: GPU-I:[0-9a-fA-F]+)?(?: [A-Z]+-[A-Z]+:[0-9a-fA-F]+)*\): ([0-9]{1,4})(?:,|$)"
)
_SWITCH = re.compile(
    r"nvidia-nvswitch[0-9]+: SXid \(PCI:([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?\): ([0-9]{5}),"
)
"""SXid errors of NVSwitches: https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide"""
_LEAST_SXID = 10_000
"""Codes of NVSwitches begin here."""


def action(code: int) -> XidAction:
    """Return what ends an error."""
    if code >= _LEAST_SXID:
        return XidAction.INVESTIGATE
    return ACTIONS[code][0] if code in ACTIONS else XidAction.UNKNOWN


def parse(text: str) -> tuple[str, int] | None:
    """Return the GPU's PCI bus id, as NVML and dcgm-exporter write it, and the code in a record of the kernel's log, if it is one.

    Errors of a MIG instance are those of its GPU. Of an NVSwitch (SXid), the bus id is the switch's.
    """
    if (found := _LINE.match(text) or _SWITCH.match(text)) is None:
        return None
    domain, bus, device, code = found.groups()
    return f"{domain.zfill(8)}:{bus}:{device}.0".upper(), int(code)
