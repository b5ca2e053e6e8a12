"""Access to files of the host that several collectors share: sysfs, procfs, mounts, udev.

Imports `base` and `formats`.
"""
