"""Access to the host that several collectors share: sysfs, procfs, udev, netlink, NVML and databases.

Imports `base` and `formats`.
"""
