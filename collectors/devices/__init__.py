"""Access to devices and databases that several collectors share: CPUs, disks, GPUs, netlink, RDT, rasdaemon.

Imports `base`, `formats` and `readers`.
"""
